#pragma once

// Compiles a function for each of these processors; the one that fits is found when the program is loaded, before
// ThreadSanitizer is there, whose programs have the last alone.
#ifdef __SANITIZE_THREAD__
#define TUTTI_TARGET_CLONES(...)
#else
#define TUTTI_TARGET_CLONES(...) [[gnu::target_clones(__VA_ARGS__)]]
#endif
