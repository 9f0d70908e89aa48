/// What every launch in kernels/cuda/ shares: the grid's size, whether wide accesses
/// are legal, and the check afterwards.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <initializer_list>

#include "runtime/base/types.h"

namespace strata::cuda {

/// The status of the launch that was just made. `kernel` names it in the message.
absl::Status LaunchStatus(const char* kernel);

/// Blocks of a grid's x dimension, which reaches 2^31.
inline unsigned BlockCount(int64_t work, int64_t work_per_block) {
  return static_cast<unsigned>(CeilDiv(work, work_per_block));
}

/// Elements that a thread moves at once where CanPack allows it: 16 bytes of bf16,
/// twice 16 bytes of fp32.
inline constexpr int kPackElements = 8;

/// Whether rows that start at `pointers` and are `strides` elements long or apart can
/// be moved in packs of kPackElements.
inline bool CanPack(std::initializer_list<const void*> pointers,
                    std::initializer_list<int64_t> strides) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  }
  for (const int64_t stride : strides) {
    if (stride % kPackElements != 0) return false;
  }
  return true;
}

}  // namespace strata::cuda
