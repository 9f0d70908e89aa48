/// STRATA_VECTORIZE before a function compiles it for AVX-512, for AVX2 and for any
/// x86-64, and the processor chooses at load time. The bits are the same: nothing is
/// contracted or reassociated, so put the loop order that vectors need into the source
/// (see rows.h). Pointers of such a function are parameters with __restrict; on locals
/// it is ignored. STRATA_HAS_CLONES: whether it does, so that a fused multiply-add is
/// an instruction on all but old processors.
#pragma once

// A sanitizer's runtime is not up yet when the choice is made; clang only analyses us.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STRATA_HAS_CLONES 1
#define STRATA_VECTORIZE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STRATA_HAS_CLONES 0
#define STRATA_VECTORIZE
#endif
