/// The words that every part of Strata shares: tiers, element types, byte units.
#pragma once

#include <cstdint>

namespace strata {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

/// Ordered from fast and small to slow and large.
enum class TierKind : uint8_t { kDevice, kHost, kNvme };
inline constexpr int kTierCount = 3;

enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr int64_t SizeOf(DType dtype) {  // bytes
  return dtype == DType::kF32 ? 4 : 2;
}

constexpr const char* Name(TierKind tier) {
  return tier == TierKind::kDevice ? "device"
         : tier == TierKind::kHost ? "host"
                                   : "nvme";
}

constexpr const char* Name(DType dtype) {
  return dtype == DType::kF32 ? "F32" : dtype == DType::kBF16 ? "BF16" : "F16";
}

/// Rounds up to a multiple of `alignment`, which must be positive.
constexpr int64_t AlignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
static_assert(AlignUp(4097, 4096) == 8192 && AlignUp(0, 4096) == 0);

/// Ceiling of a division of non-negative by positive.
constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace strata
