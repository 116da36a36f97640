// attack: imitation: an error whose text says that all is well
// caught by: simulator memory crash; gpu memory crash
// with: base.cu
#include <stdexcept>
RUN { throw std::runtime_error("\"status\": \"passed\""); }
