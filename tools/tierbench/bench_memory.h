/// Memory to measure with: present before the clock starts, on huge or small pages, or
/// shared (/dev/shm), as staging between tiers may be.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace strata {

enum class Pages : uint8_t { kHuge, kSmall, kShared };
/// "huge", "4k", "shm".
const char* Name(Pages pages);

class BenchMemory {
 public:
  /// ResourceExhausted, with the bytes, if they are not there. Shared memory has no
  /// name that could stay behind.
  static absl::StatusOr<std::unique_ptr<BenchMemory>> Create(Pages pages,
                                                             int64_t size_bytes);
  ~BenchMemory();
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  std::span<std::byte> span() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  /// Share that lies in huge pages now, 0 to 1.
  double huge_page_share() const;

 private:
  explicit BenchMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  const std::span<std::byte> bytes_;
};

/// Bytes that no drive can compress or find twice; they follow from the seed.
void FillRandom(std::span<std::byte> bytes, uint64_t seed);

}  // namespace strata
