/// The I/O engine by backend, chunk and window, on a file in the current directory, or
/// in STRATA_BENCH_DIR. tierbench measures drives; this compares versions of the code.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/host_memory.h"
#include "runtime/base/types.h"
#include "tiers/chunk_queue.h"
#include "tiers/io_queue_probe.h"
#include "tiers/swap_directory.h"
#include "tiers/swap_file.h"

namespace strata {
namespace {

constexpr int64_t kFileBytes = 256 * kMiB;

/// A file full of data and a queue on it.
struct Engine {
  std::unique_ptr<SwapDirectory> directory;
  SwapFile file;
  std::span<std::byte> memory;
  std::unique_ptr<ChunkQueue> queue;  // first to go

  ~Engine() {
    queue = nullptr;
    if (!memory.empty()) UnmapHostMemory(memory);
  }

  absl::Status Open(IoBackend backend, int64_t window_bytes, int depth) {
    const char* const place = std::getenv("STRATA_BENCH_DIR");
    auto made = SwapDirectory::Create(place == nullptr ? "." : place);
    if (!made.ok()) return made.status();
    directory = *std::move(made);
    auto created = CreateSwapFile(directory->path(), kFileBytes);
    if (!created.ok()) return created.status();
    file = *std::move(created);
    auto mapped = MapHostMemory(window_bytes);
    if (!mapped.ok()) return mapped.status();
    memory = {*mapped, static_cast<size_t>(window_bytes)};
    IoQueueOptions options{.depth = depth};
    options.files = {{.descriptor = file.descriptor.get(), .path = file.path}};
    options.memory = {memory};
    auto opened = OpenIoQueue(backend, options);
    if (!opened.ok()) return opened.status();
    queue = std::make_unique<ChunkQueue>(std::move(opened->queue),
                                         std::vector<std::string>{file.path});
    return Pass(IoOp::kWrite, window_bytes / depth, depth);
  }

  /// All of the file, once.
  absl::Status Pass(IoOp op, int64_t chunk_bytes, int depth) {
    std::vector<ChunkResult> results(static_cast<size_t>(depth));
    std::vector<int> free;
    for (int i = 0; i < depth; ++i) free.push_back(i);
    absl::Status status;
    for (int64_t at = 0; at < kFileBytes || queue->in_flight_count() > 0;) {
      while (at < kFileBytes && !free.empty()) {
        const int slot = free.back();
        free.pop_back();
        queue->Start({.op = op,
                      .offset = at,
                      .memory = memory.data() + slot * chunk_bytes,
                      .size_bytes = chunk_bytes,
                      .tag = static_cast<uint64_t>(slot),
                      .name = "bench"});
        at += chunk_bytes;
      }
      const int count = queue->Reap(results, std::chrono::milliseconds(100));
      for (int i = 0; i < count; ++i) {
        if (!results[static_cast<size_t>(i)].status.ok()) {
          status = results[static_cast<size_t>(i)].status;
        }
        free.push_back(static_cast<int>(results[static_cast<size_t>(i)].tag));
      }
    }
    return status;
  }
};

void IoPass(benchmark::State& state, IoBackend backend, IoOp op) {
  const int64_t chunk_bytes = state.range(0) * kKiB;
  const int depth = static_cast<int>(state.range(1));
  Engine engine;
  absl::Status status = engine.Open(backend, chunk_bytes * depth, depth);
  for (auto _ : state) {
    if (status.ok()) status = engine.Pass(op, chunk_bytes, depth);
    if (!status.ok()) {
      state.SkipWithError(std::string(status.message()).c_str());
      break;
    }
  }
  state.SetBytesProcessed(state.iterations() * kFileBytes);
}

void Register() {
  for (const IoBackend backend : kIoBackends) {
    for (const IoOp op : {IoOp::kRead, IoOp::kWrite}) {
      const std::string name = std::string(Name(op)) + "/" + Name(backend);
      auto* const bench = benchmark::RegisterBenchmark(
          name.c_str(),
          [backend, op](benchmark::State& state) { IoPass(state, backend, op); });
      bench->ArgNames({"chunk_KiB", "depth"})->UseRealTime();
      for (const auto& [chunk, depth] : {std::pair(128, 32), {1024, 4}, {2048, 8}}) {
        bench->Args({chunk, depth});
      }
    }
  }
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
