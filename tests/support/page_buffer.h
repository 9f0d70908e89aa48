/// Page-aligned memory of a test, filled with bytes that follow from a seed and differ
/// at every offset, so that swapped, shifted and lost blocks all show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace strata {

class PageBuffer {
 public:
  static constexpr std::align_val_t kAlignment{4096};

  explicit PageBuffer(int64_t size_bytes)
      : size_bytes_(size_bytes),
        bytes_(static_cast<std::byte*>(
            ::operator new(static_cast<size_t>(size_bytes), kAlignment))) {
    std::memset(bytes_.get(), 0xa5, static_cast<size_t>(size_bytes));
  }
  PageBuffer(int64_t size_bytes, uint64_t seed) : PageBuffer(size_bytes) { Fill(seed); }

  void Fill(uint64_t seed) {
    for (int64_t i = 0; i < size_bytes_; i += 8) {
      uint64_t word = (seed << 40) + static_cast<uint64_t>(i) + 0x9e3779b97f4a7c15u;
      word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
      word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
      std::memcpy(bytes_.get() + i, &word, 8);
    }
  }

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  int64_t size_bytes() const { return size_bytes_; }
  std::span<std::byte> span() { return {data(), static_cast<size_t>(size_bytes_)}; }

  friend bool operator==(const PageBuffer& a, const PageBuffer& b) {
    return a.size_bytes_ == b.size_bytes_ &&
           std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size_bytes_)) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
  };

  int64_t size_bytes_;
  std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace strata
