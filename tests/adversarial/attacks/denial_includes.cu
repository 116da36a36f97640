// attack: denial: a file that includes itself twice
// caught by: simulator compile timeout; gpu compile timeout
#if __INCLUDE_LEVEL__ < 40
#include __FILE__
#include __FILE__
#endif
