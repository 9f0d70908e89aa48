/// A first-in first-out queue of fixed capacity, which never allocates after it was
/// made.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace strata {

/// Not thread-safe.
template <typename T>
class BoundedRing {
 public:
  explicit BoundedRing(int capacity) : items_(static_cast<size_t>(capacity)) {}

  bool empty() const { return count_ == 0; }
  int size() const { return static_cast<int>(count_); }

  /// REQUIRES: not full.
  void Push(T item) {
    STRATA_CHECK(count_ < items_.size());
    items_[(first_ + count_) % items_.size()] = std::move(item);
    ++count_;
  }

  /// REQUIRES: not empty.
  T& front() {
    STRATA_CHECK(count_ > 0);
    return items_[first_];
  }
  T Pop() {
    T item = std::move(front());
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace strata
