/// What the CPU operations are made of: rows of numbers go to fp32, are computed on,
/// and are rounded once on the way back. So each operation is written once, for fp32.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/types.h"

namespace strata {

/// target[i] = source[first + i] for i in [0, count); source holds `dtype`.
void LoadRow(float* target, const void* source, DType dtype, int64_t first,
             int64_t count);

/// target[first + i] = source[i], rounded to `dtype`.
void StoreRow(void* target, DType dtype, int64_t first, const float* source,
              int64_t count);

/// Reductions run in 16 lanes, element i in lane i % 16, and the lanes are then added
/// up in halves: compilers vectorise that, and the order depends on `count` only.
float Sum(const float* values, int64_t count);
float Dot(const float* a, const float* b, int64_t count);
/// The largest value that is a number; -infinity if there is none.
float Largest(const float* values, int64_t count);

/// Scratch of the calling thread. It grows the first time that so much is asked for,
/// and never again; the content is garbage, and the next call hands out the same
/// floats.
std::span<float> ThreadScratch(int64_t count);

/// Rows per piece of parallel work, so that a piece is worth the hand-over.
int64_t RowGrain(int64_t width);

}  // namespace strata
