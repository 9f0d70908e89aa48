/// Anonymous host memory as arenas want it: resident from the start, so that no page
/// fault happens in a training step, and on huge pages where the kernel has them, so
/// that copies and the CPU optimizer do not spend their time in the page table.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata {

/// Maps `size_bytes` (positive) of zeroed memory that is already populated, aligned to
/// 4 KiB, or to 2 MiB from 2 MiB on. Blocks while the kernel clears it: about a second
/// for 10 GiB. ResourceExhausted if the address space or the memory is not there.
/// Thread-safe.
absl::StatusOr<std::byte*> MapHostMemory(int64_t size_bytes);

/// Gives back what MapHostMemory gave: exactly one whole range.
void UnmapHostMemory(std::span<std::byte> memory) noexcept;

}  // namespace strata
