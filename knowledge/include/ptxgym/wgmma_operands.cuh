// The operand lists of wgmma: %0 and on, one line for each N. A product with N columns has N / 2 accumulators per
// thread.
// PTXGYM_ACCUMULATORS_N(F) is F(1) F(2) ... F(N / 2 - 1); F brings the comma before it, so item 0 is written out.
// PTXGYM_FOR_EACH_N(F) is F(N, ...) for every N, with the numbers of the operands behind the accumulators.
#pragma once

#define PTXGYM_ACCUMULATORS_8(F) F(1) F(2) F(3)
#define PTXGYM_ACCUMULATORS_16(F) PTXGYM_ACCUMULATORS_8(F) F(4) F(5) F(6) F(7)
#define PTXGYM_ACCUMULATORS_24(F) PTXGYM_ACCUMULATORS_16(F) F(8) F(9) F(10) F(11)
#define PTXGYM_ACCUMULATORS_32(F) PTXGYM_ACCUMULATORS_24(F) F(12) F(13) F(14) F(15)
#define PTXGYM_ACCUMULATORS_40(F) PTXGYM_ACCUMULATORS_32(F) F(16) F(17) F(18) F(19)
#define PTXGYM_ACCUMULATORS_48(F) PTXGYM_ACCUMULATORS_40(F) F(20) F(21) F(22) F(23)
#define PTXGYM_ACCUMULATORS_56(F) PTXGYM_ACCUMULATORS_48(F) F(24) F(25) F(26) F(27)
#define PTXGYM_ACCUMULATORS_64(F) PTXGYM_ACCUMULATORS_56(F) F(28) F(29) F(30) F(31)
#define PTXGYM_ACCUMULATORS_72(F) PTXGYM_ACCUMULATORS_64(F) F(32) F(33) F(34) F(35)
#define PTXGYM_ACCUMULATORS_80(F) PTXGYM_ACCUMULATORS_72(F) F(36) F(37) F(38) F(39)
#define PTXGYM_ACCUMULATORS_88(F) PTXGYM_ACCUMULATORS_80(F) F(40) F(41) F(42) F(43)
#define PTXGYM_ACCUMULATORS_96(F) PTXGYM_ACCUMULATORS_88(F) F(44) F(45) F(46) F(47)
#define PTXGYM_ACCUMULATORS_104(F) PTXGYM_ACCUMULATORS_96(F) F(48) F(49) F(50) F(51)
#define PTXGYM_ACCUMULATORS_112(F) PTXGYM_ACCUMULATORS_104(F) F(52) F(53) F(54) F(55)
#define PTXGYM_ACCUMULATORS_120(F) PTXGYM_ACCUMULATORS_112(F) F(56) F(57) F(58) F(59)
#define PTXGYM_ACCUMULATORS_128(F) PTXGYM_ACCUMULATORS_120(F) F(60) F(61) F(62) F(63)
#define PTXGYM_ACCUMULATORS_136(F) PTXGYM_ACCUMULATORS_128(F) F(64) F(65) F(66) F(67)
#define PTXGYM_ACCUMULATORS_144(F) PTXGYM_ACCUMULATORS_136(F) F(68) F(69) F(70) F(71)
#define PTXGYM_ACCUMULATORS_152(F) PTXGYM_ACCUMULATORS_144(F) F(72) F(73) F(74) F(75)
#define PTXGYM_ACCUMULATORS_160(F) PTXGYM_ACCUMULATORS_152(F) F(76) F(77) F(78) F(79)
#define PTXGYM_ACCUMULATORS_168(F) PTXGYM_ACCUMULATORS_160(F) F(80) F(81) F(82) F(83)
#define PTXGYM_ACCUMULATORS_176(F) PTXGYM_ACCUMULATORS_168(F) F(84) F(85) F(86) F(87)
#define PTXGYM_ACCUMULATORS_184(F) PTXGYM_ACCUMULATORS_176(F) F(88) F(89) F(90) F(91)
#define PTXGYM_ACCUMULATORS_192(F) PTXGYM_ACCUMULATORS_184(F) F(92) F(93) F(94) F(95)
#define PTXGYM_ACCUMULATORS_200(F) PTXGYM_ACCUMULATORS_192(F) F(96) F(97) F(98) F(99)
#define PTXGYM_ACCUMULATORS_208(F) PTXGYM_ACCUMULATORS_200(F) F(100) F(101) F(102) F(103)
#define PTXGYM_ACCUMULATORS_216(F) PTXGYM_ACCUMULATORS_208(F) F(104) F(105) F(106) F(107)
#define PTXGYM_ACCUMULATORS_224(F) PTXGYM_ACCUMULATORS_216(F) F(108) F(109) F(110) F(111)
#define PTXGYM_ACCUMULATORS_232(F) PTXGYM_ACCUMULATORS_224(F) F(112) F(113) F(114) F(115)
#define PTXGYM_ACCUMULATORS_240(F) PTXGYM_ACCUMULATORS_232(F) F(116) F(117) F(118) F(119)
#define PTXGYM_ACCUMULATORS_248(F) PTXGYM_ACCUMULATORS_240(F) F(120) F(121) F(122) F(123)
#define PTXGYM_ACCUMULATORS_256(F) PTXGYM_ACCUMULATORS_248(F) F(124) F(125) F(126) F(127)

#define PTXGYM_FOR_EACH_N(F) \
    F(8, "%4", "%5", "%6", "%7", "%8", "%9", "%10") \
    F(16, "%8", "%9", "%10", "%11", "%12", "%13", "%14") \
    F(24, "%12", "%13", "%14", "%15", "%16", "%17", "%18") \
    F(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22") \
    F(40, "%20", "%21", "%22", "%23", "%24", "%25", "%26") \
    F(48, "%24", "%25", "%26", "%27", "%28", "%29", "%30") \
    F(56, "%28", "%29", "%30", "%31", "%32", "%33", "%34") \
    F(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38") \
    F(72, "%36", "%37", "%38", "%39", "%40", "%41", "%42") \
    F(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46") \
    F(88, "%44", "%45", "%46", "%47", "%48", "%49", "%50") \
    F(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54") \
    F(104, "%52", "%53", "%54", "%55", "%56", "%57", "%58") \
    F(112, "%56", "%57", "%58", "%59", "%60", "%61", "%62") \
    F(120, "%60", "%61", "%62", "%63", "%64", "%65", "%66") \
    F(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70") \
    F(136, "%68", "%69", "%70", "%71", "%72", "%73", "%74") \
    F(144, "%72", "%73", "%74", "%75", "%76", "%77", "%78") \
    F(152, "%76", "%77", "%78", "%79", "%80", "%81", "%82") \
    F(160, "%80", "%81", "%82", "%83", "%84", "%85", "%86") \
    F(168, "%84", "%85", "%86", "%87", "%88", "%89", "%90") \
    F(176, "%88", "%89", "%90", "%91", "%92", "%93", "%94") \
    F(184, "%92", "%93", "%94", "%95", "%96", "%97", "%98") \
    F(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102") \
    F(200, "%100", "%101", "%102", "%103", "%104", "%105", "%106") \
    F(208, "%104", "%105", "%106", "%107", "%108", "%109", "%110") \
    F(216, "%108", "%109", "%110", "%111", "%112", "%113", "%114") \
    F(224, "%112", "%113", "%114", "%115", "%116", "%117", "%118") \
    F(232, "%116", "%117", "%118", "%119", "%120", "%121", "%122") \
    F(240, "%120", "%121", "%122", "%123", "%124", "%125", "%126") \
    F(248, "%124", "%125", "%126", "%127", "%128", "%129", "%130") \
    F(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
