/// The checksum of everything that rests on a drive: in the cache, where a chunk is
/// just after it was read, and from memory.

#include <benchmark/benchmark.h>

#include <vector>

#include "runtime/base/crc32c.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

void Run(benchmark::State& state,
         uint32_t (*sum)(uint32_t, std::span<const std::byte>)) {
  const std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)),
                                     std::byte{0x5a});
  for (auto _ : state) benchmark::DoNotOptimize(sum(0, bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(Run, crc32c, Crc32c)->Arg(4 * kKiB)->Arg(256 * kKiB)->Arg(256 * kMiB);
BENCHMARK_CAPTURE(Run, crc32c_portable, Crc32cPortable)->Arg(256 * kKiB);

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
