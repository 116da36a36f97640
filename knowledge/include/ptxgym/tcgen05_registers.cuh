// Register lists of tcgen05.ld and tcgen05.st: PTXGYM_REGISTERS_N(F) is F(1) ... F(N - 1); item 0 is written out.
// PTXGYM_FOR_EACH_COUNT_R(F, SHAPE), R registers per repetition, is F(SHAPE, repetitions, registers, next operand) ...
#pragma once

#define PTXGYM_REGISTERS_1(F)
#define PTXGYM_REGISTERS_2(F) F(1)
#define PTXGYM_REGISTERS_4(F) PTXGYM_REGISTERS_2(F) \
    F(2) F(3)
#define PTXGYM_REGISTERS_8(F) PTXGYM_REGISTERS_4(F) \
    F(4) F(5) F(6) F(7)
#define PTXGYM_REGISTERS_16(F) PTXGYM_REGISTERS_8(F) \
    F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define PTXGYM_REGISTERS_32(F) PTXGYM_REGISTERS_16(F) \
    F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31)
#define PTXGYM_REGISTERS_64(F) PTXGYM_REGISTERS_32(F) \
    F(32) F(33) F(34) F(35) F(36) F(37) F(38) F(39) F(40) F(41) F(42) F(43) F(44) F(45) F(46) F(47) \
    F(48) F(49) F(50) F(51) F(52) F(53) F(54) F(55) F(56) F(57) F(58) F(59) F(60) F(61) F(62) F(63)
#define PTXGYM_REGISTERS_128(F) PTXGYM_REGISTERS_64(F) \
    F(64) F(65) F(66) F(67) F(68) F(69) F(70) F(71) F(72) F(73) F(74) F(75) F(76) F(77) F(78) F(79) \
    F(80) F(81) F(82) F(83) F(84) F(85) F(86) F(87) F(88) F(89) F(90) F(91) F(92) F(93) F(94) F(95) \
    F(96) F(97) F(98) F(99) F(100) F(101) F(102) F(103) F(104) F(105) F(106) F(107) F(108) F(109) F(110) F(111) \
    F(112) F(113) F(114) F(115) F(116) F(117) F(118) F(119) F(120) F(121) F(122) F(123) F(124) F(125) F(126) F(127)

#define PTXGYM_FOR_EACH_COUNT_1(F, SHAPE) \
    F(SHAPE, 1, 1, "%1") \
    F(SHAPE, 2, 2, "%2") \
    F(SHAPE, 4, 4, "%4") \
    F(SHAPE, 8, 8, "%8") \
    F(SHAPE, 16, 16, "%16") \
    F(SHAPE, 32, 32, "%32") \
    F(SHAPE, 64, 64, "%64") \
    F(SHAPE, 128, 128, "%128")

#define PTXGYM_FOR_EACH_COUNT_2(F, SHAPE) \
    F(SHAPE, 1, 2, "%2") \
    F(SHAPE, 2, 4, "%4") \
    F(SHAPE, 4, 8, "%8") \
    F(SHAPE, 8, 16, "%16") \
    F(SHAPE, 16, 32, "%32") \
    F(SHAPE, 32, 64, "%64") \
    F(SHAPE, 64, 128, "%128")

#define PTXGYM_FOR_EACH_COUNT_4(F, SHAPE) \
    F(SHAPE, 1, 4, "%4") \
    F(SHAPE, 2, 8, "%8") \
    F(SHAPE, 4, 16, "%16") \
    F(SHAPE, 8, 32, "%32") \
    F(SHAPE, 16, 64, "%64") \
    F(SHAPE, 32, 128, "%128")

// The second operand behind N registers.
#define PTXGYM_BEHIND_1 "%2"
#define PTXGYM_BEHIND_2 "%3"
#define PTXGYM_BEHIND_4 "%5"
#define PTXGYM_BEHIND_8 "%9"
#define PTXGYM_BEHIND_16 "%17"
#define PTXGYM_BEHIND_32 "%33"
#define PTXGYM_BEHIND_64 "%65"
#define PTXGYM_BEHIND_128 "%129"
