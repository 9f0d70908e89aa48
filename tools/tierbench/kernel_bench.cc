#include "tools/tierbench/kernel_bench.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/available_memory.h"
#include "runtime/base/float16.h"
#include "runtime/base/status.h"
#include "tools/machine/system_view.h"
#include "tools/tierbench/cpu_time.h"

namespace strata {
namespace {

constexpr int64_t kPatternCount = 1 << 20;

/// Numbers of a layer's size, neither zeros (cards compute those with less power) nor
/// large.
std::vector<std::byte> Pattern(DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(kPatternCount * SizeOf(dtype)));
  uint64_t state = 1;
  for (int64_t i = 0; i < kPatternCount; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float value =
        static_cast<float>(static_cast<int64_t>(state) >> 40) * 0x1p-23f;
    std::byte* const at = bytes.data() + i * SizeOf(dtype);
    if (dtype == DType::kF32) {
      std::memcpy(at, &value, 4);
    } else {
      const uint16_t half = Bf16FromFloat(value);
      std::memcpy(at, &half, 2);
    }
  }
  return bytes;
}

constexpr AdamWScalars kScalars = {.gradient_scale = 1.0f,
                                   .beta1 = 0.9f,
                                   .one_minus_beta1 = 0.1f,
                                   .beta2 = 0.999f,
                                   .one_minus_beta2 = 0.001f,
                                   .step_size = 1e-5f,
                                   .sqrt_correction2 = 1.0f,
                                   .epsilon = 1e-8f,
                                   .decay_factor = 1.0f,
                                   .l2 = 0.0f};

}  // namespace

KernelShapes KernelShapes::ForCpu() {
  return {.sequences = 1,
          .length = 256,
          .hidden = 576,
          .inner = 1536,
          .heads = 9,
          .kv_heads = 3,
          .head_dim = 64};
}

int64_t UncachedParameters() {
  const SystemView system = SystemView::OfThisMachine();
  std::map<std::string, int64_t> caches;  // by the cores that share one
  for (const std::string& cpu : system.List("/sys/devices/system/cpu")) {
    const std::string cache =
        absl::StrCat("/sys/devices/system/cpu/", cpu, "/cache/index3");
    const auto size = system.Line(cache + "/size");
    const auto shared = system.Line(cache + "/shared_cpu_list");
    int64_t kib = 0;  // "32768K"
    if (size && shared && absl::SimpleAtoi(absl::StripSuffix(*size, "K"), &kib)) {
      caches[*shared] = kib * kKiB;
    }
  }
  int64_t cached = 0;
  for (const auto& [cores, bytes] : caches) cached += bytes;
  int64_t wanted = std::max(4 * kGiB, 8 * cached);
  if (const auto memory = FindAvailableMemory(""); memory.ok()) {
    wanted = std::min(wanted, memory->available_bytes / 4);
  }
  return std::max<int64_t>(wanted / UpdateBytes(true), kTileElements);
}

absl::StatusOr<std::unique_ptr<KernelBench>> KernelBench::Create(Device& device,
                                                                 int threads) {
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                          device.CreateStream("tierbench", 64));
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<Kernels> kernels,
                          CreateKernels(device.kind(), {.threads = threads}));
  return std::unique_ptr<KernelBench>(
      new KernelBench(device, std::move(stream), std::move(kernels)));
}

absl::StatusOr<std::byte*> KernelBench::Zeros(int64_t size_bytes) {
  STRATA_ASSIGN_OR_RETURN(Buffer buffer,
                          device_.Allocate(MemoryKind::kDevice, size_bytes));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().data();
}

absl::StatusOr<void*> KernelBench::Values(int64_t count, DType dtype) {
  const int64_t size_bytes = count * SizeOf(dtype);
  STRATA_ASSIGN_OR_RETURN(std::byte* const data, Zeros(size_bytes));
  const std::vector<std::byte> pattern = Pattern(dtype);
  const auto step = static_cast<int64_t>(pattern.size());
  for (int64_t at = 0; at < size_bytes; at += step) {
    stream_->Copy(data + at, pattern.data(), std::min(step, size_bytes - at));
  }
  STRATA_RETURN_IF_ERROR(stream_->Synchronize());
  return data;
}

template <typename Op>
absl::StatusOr<Phase> KernelBench::Measure(Phase phase, Cost cost, const Op& op,
                                           TimeBudget budget, const Stop& stop) {
  const TimedWork work{.start = [&] { return kernels_->Run(*stream_, op); },
                       .finish = [&] { return stream_->Synchronize(); }};
  STRATA_ASSIGN_OR_RETURN(const std::vector<double> times,
                          TimeWork(work, budget, stop));
  std::vector<double> rates;
  for (const double seconds : times) {
    rates.push_back(cost.bytes / seconds);
    phase.seconds += seconds;
  }
  phase.bytes = cost.bytes * static_cast<double>(times.size());
  SetSamples(phase, std::move(rates));
  phase.flop_per_second = cost.flop / Median(times);
  phase.params["seconds_per_call"] = Median(times);
  return phase;
}

absl::StatusOr<Phase> KernelBench::MeasureUpdate(const UpdateWork& work,
                                                 TimeBudget budget, const Stop& stop) {
  const absl::Cleanup free = [this] { FreeAll(); };
  const int64_t count = work.parameters / kTileElements * kTileElements;
  AdamW op{.count = count,
           .scalars = kScalars,
           .dtype = DType::kBF16,
           .first_bad = nullptr,
           .first_element = 0};
  op.speculated = nullptr;
  STRATA_ASSIGN_OR_RETURN(op.weight, Values(count, DType::kBF16));
  STRATA_ASSIGN_OR_RETURN(void* const remainder, Values(count, DType::kBF16));
  op.remainder = static_cast<int16_t*>(remainder);
  STRATA_ASSIGN_OR_RETURN(void* const gradient, Values(count, DType::kBF16));
  op.gradient = gradient;
  // Second moments are not negative.
  STRATA_ASSIGN_OR_RETURN(std::byte* const moment1, Zeros(4 * count));
  STRATA_ASSIGN_OR_RETURN(std::byte* const moment2, Zeros(4 * count));
  op.moment1 = reinterpret_cast<float*>(moment1);
  op.moment2 = reinterpret_cast<float*>(moment2);
  // Weight, remainder and moments are read and written, gradients are read.
  double touched = 2 * 12 + 2;
  if (work.advances) {
    touched += 6;  // the next gradient is read and kept, a weight is speculated
    STRATA_ASSIGN_OR_RETURN(op.speculated, Values(count, DType::kBF16));
    STRATA_ASSIGN_OR_RETURN(op.next_gradient, Values(count, DType::kBF16));
    op.kept_gradient = gradient;
    op.next_scalars = kScalars;
  }
  const bool is_cpu = device_.kind() == DeviceKind::kCpu;
  Phase phase{.name = absl::StrCat(is_cpu ? "cpu" : "device",
                                   work.advances ? "_advance" : "_update"),
              .label = absl::StrCat(is_cpu ? "CPU" : "device", " AdamW",
                                    work.advances ? ", two steps in a pass" : " update",
                                    " (read + write)")};
  const int64_t copied = work.load != nullptr ? work.load->bytes() : 0;
  const double start = NowSeconds();
  STRATA_ASSIGN_OR_RETURN(
      phase, Measure(std::move(phase), {.bytes = touched * static_cast<double>(count)},
                     op, budget, stop));
  if (work.load != nullptr) {
    phase.params["copies_gbps"] =
        static_cast<double>(work.load->bytes() - copied) / (NowSeconds() - start) / 1e9;
  }
  phase.elements_per_second = phase.rate.median / touched;
  phase.flop_per_second = 0;
  phase.params["parameters"] = count;
  phase.params["touched_bytes_per_parameter"] = touched;
  return phase;
}

absl::StatusOr<Phase> KernelBench::MeasureMatmul(Phase phase, Matmul op,
                                                 TimeBudget budget, const Stop& stop) {
  const absl::Cleanup free = [this] { FreeAll(); };
  STRATA_ASSIGN_OR_RETURN(op.a, Values(op.m * op.k, op.dtype));
  STRATA_ASSIGN_OR_RETURN(op.b, Values(op.k * op.n, op.dtype));
  STRATA_ASSIGN_OR_RETURN(op.c, Values(op.m * op.n, op.c_dtype));
  STRATA_ASSIGN_OR_RETURN(op.workspace, Zeros(kernels_->matmul_workspace_bytes()));
  const double mn = static_cast<double>(op.m) * static_cast<double>(op.n);
  const double inputs = static_cast<double>(op.m * op.k + op.k * op.n);
  const Cost cost{
      .flop = 2 * mn * static_cast<double>(op.k),
      .bytes = inputs * static_cast<double>(SizeOf(op.dtype)) +
               mn * static_cast<double>(SizeOf(op.c_dtype)) * (op.accumulate ? 2 : 1)};
  phase.params["m"] = op.m;
  phase.params["n"] = op.n;
  phase.params["k"] = op.k;
  return Measure(std::move(phase), cost, op, budget, stop);
}

absl::StatusOr<std::vector<Phase>> KernelBench::MeasureMatmuls(const KernelShapes& s,
                                                               TimeBudget budget,
                                                               const Stop& stop) {
  struct Case {
    const char* name;
    int64_t m, n, k;
    bool is_weight_gradient;
  };
  const int64_t qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  std::vector<Phase> phases;
  for (const Case& c : {Case{"qkv", s.rows(), qkv, s.hidden, false},
                        {"output", s.rows(), s.hidden, s.hidden, false},
                        {"gate_up", s.rows(), 2 * s.inner, s.hidden, false},
                        {"down", s.rows(), s.hidden, s.inner, false},
                        {"down_weight_gradient", s.hidden, s.inner, s.rows(), true}}) {
    const Matmul op{.m = c.m,
                    .n = c.n,
                    .k = c.k,
                    .transpose_a = c.is_weight_gradient,
                    .transpose_b = !c.is_weight_gradient,
                    .accumulate = c.is_weight_gradient,
                    .dtype = DType::kBF16,
                    .c_dtype = c.is_weight_gradient ? DType::kF32 : DType::kBF16};
    STRATA_ASSIGN_OR_RETURN(
        Phase phase, MeasureMatmul({.name = absl::StrCat("matmul_", c.name),
                                    .label = absl::StrCat("bf16 matmul ", c.name, " ",
                                                          c.m, " x ", c.n, " x ", c.k)},
                                   op, budget, stop));
    phases.push_back(std::move(phase));
  }
  return phases;
}

absl::StatusOr<std::vector<Phase>> KernelBench::MeasureAttention(const KernelShapes& s,
                                                                 TimeBudget budget,
                                                                 const Stop& stop) {
  const absl::Cleanup free = [this] { FreeAll(); };
  const int64_t rows = s.rows();
  const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const int64_t output = rows * s.heads * s.head_dim;
  constexpr DType kT = DType::kBF16;
  AttentionForward f{.sequences = s.sequences,
                     .length = s.length,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .head_dim = s.head_dim,
                     .row_stride = stride,
                     .scale = 0.1f,
                     .dtype = kT};
  STRATA_ASSIGN_OR_RETURN(void* const packed_values, Values(rows * stride, kT));
  STRATA_ASSIGN_OR_RETURN(f.output, Values(output, kT));
  STRATA_ASSIGN_OR_RETURN(std::byte* const sums, Zeros(4 * rows * s.heads));
  STRATA_ASSIGN_OR_RETURN(std::byte* const documents, Zeros(4 * rows));
  auto* const packed = static_cast<std::byte*>(packed_values);
  const int64_t key = s.heads * s.head_dim * SizeOf(kT);
  const int64_t value = key + s.kv_heads * s.head_dim * SizeOf(kT);
  f.log_sum_exp = reinterpret_cast<float*>(sums);
  f.documents = reinterpret_cast<int32_t*>(documents);
  f.query = packed;
  f.key = packed + key;
  f.value = packed + value;
  STRATA_ASSIGN_OR_RETURN(std::byte* const gradient, Zeros(2 * rows * stride));
  STRATA_ASSIGN_OR_RETURN(void* const output_gradient, Values(output, kT));
  STRATA_ASSIGN_OR_RETURN(std::byte* const workspace,
                          Zeros(AttentionBackwardWorkspaceBytes(rows, s.heads)));
  const AttentionBackward b{.query_gradient = gradient,
                            .key_gradient = gradient + key,
                            .value_gradient = gradient + value,
                            .output_gradient = output_gradient,
                            .output = f.output,
                            .log_sum_exp = f.log_sum_exp,
                            .query = f.query,
                            .key = f.key,
                            .value = f.value,
                            .documents = f.documents,
                            .sequences = s.sequences,
                            .length = s.length,
                            .heads = s.heads,
                            .kv_heads = s.kv_heads,
                            .head_dim = s.head_dim,
                            .row_stride = stride,
                            .scale = f.scale,
                            .dtype = kT,
                            .workspace = workspace};
  // Two products over the lower triangle of length x length; five in the backward.
  const Cost cost{.flop = 2.0 * static_cast<double>(rows * s.length * s.head_dim) *
                          static_cast<double>(s.heads),
                  .bytes = 2.0 * static_cast<double>(rows * stride + output)};
  const std::string shape =
      absl::StrCat(" ", s.sequences, " x ", s.length, ", ", s.heads, "/", s.kv_heads,
                   " heads of ", s.head_dim);
  STRATA_ASSIGN_OR_RETURN(
      Phase forward,
      Measure({.name = "attention", .label = absl::StrCat("attention", shape)}, cost, f,
              budget, stop));
  STRATA_ASSIGN_OR_RETURN(Phase backward,
                          Measure({.name = "attention_gradient",
                                   .label = absl::StrCat("attention gradient", shape)},
                                  {2.5 * cost.flop, 2 * cost.bytes}, b, budget, stop));
  return std::vector<Phase>{std::move(forward), std::move(backward)};
}

absl::StatusOr<double> KernelBench::MeasureOverhead(const Stop& stop) {
  const absl::Cleanup free = [this] { FreeAll(); };
  STRATA_ASSIGN_OR_RETURN(std::byte* const data, Zeros(8192));
  const TimedWork work{.start = [&]() -> absl::Status {
                         const Ticket ticket = stream_->Copy(data, data + 4096, 4096);
                         while (true) {
                           STRATA_ASSIGN_OR_RETURN(const Ticket done,
                                                   stream_->Completed());
                           if (done >= ticket) return absl::OkStatus();
                         }
                       },
                       .finish = [] { return absl::OkStatus(); }};
  STRATA_ASSIGN_OR_RETURN(const std::vector<double> times,
                          TimeWork(work, {.loops = 5, .loop_seconds = 0.02}, stop));
  return Median(times);
}

}  // namespace strata
