/// The memory of the host tier: one range of anonymous pages of exactly the planned
/// size, huge where the kernel has them, and all there before the run starts, so that a
/// machine with too little of it says so at once.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace strata {

class HostArena {
 public:
  static constexpr int64_t kAlignment = int64_t{1} << 21;  // a huge page

  /// `size_bytes` is rounded up to whole 4 KiB pages, no further. The pages are zero.
  /// ResourceExhausted if the system refuses the memory. (Linux may also promise it and
  /// end the process later; the plan's budget guards against that.)
  static absl::StatusOr<std::unique_ptr<HostArena>> Create(int64_t size_bytes);

  /// REQUIRES: no transfer touches the memory any more.
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  std::byte* data() const { return data_; }  // aligned to kAlignment
  int64_t size_bytes() const { return size_bytes_; }
  std::span<std::byte> span() const {
    return {data_, static_cast<size_t>(size_bytes_)};
  }

  /// Share of the arena that lies in huge pages now, 0 to 1. Reads /proc: for reports.
  double huge_page_share() const;

 private:
  HostArena(std::span<std::byte> reserved, std::byte* data, int64_t size_bytes)
      : reserved_(reserved), data_(data), size_bytes_(size_bytes) {}

  const std::span<std::byte> reserved_;  // address space around the arena
  std::byte* const data_;
  const int64_t size_bytes_;
};

}  // namespace strata
