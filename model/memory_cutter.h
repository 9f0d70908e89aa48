/// Cuts a region of memory into aligned parts, in order. With a null base it only
/// counts, so that one function states both how much memory is needed and where each
/// part lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/types.h"

namespace strata {

class MemoryCutter {
 public:
  static constexpr int64_t kAlignment = 256;  // bytes, of every tensor

  /// `base` is aligned to kAlignment, or null.
  explicit MemoryCutter(std::byte* base) : base_(base) {}

  template <typename T = std::byte>
  T* Take(int64_t size_bytes) {
    std::byte* const part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += AlignUp(size_bytes, kAlignment);
    return reinterpret_cast<T*>(part);
  }

  int64_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace strata
