/// What the CUDA kernels reach at the shapes of a 7B model, against what the card can
/// do.
///
/// Two ceilings are measured first: a large copy (bytes read + written) and a large
/// bf16 matrix product. A kernel's floor is the longer of its bytes and its operations
/// at those rates, and the last column is the floor over the median time. Inputs are
/// random; the tensors are larger than the level-2 cache. usage: kernel_bench
/// [SUBSTRING_OF_NAME]

#include <absl/strings/str_format.h>

#include <cstdint>

#include "bench/kernel_timer.h"
#include "kernels/ops.h"

namespace strata {
namespace {

constexpr int64_t kRows = 8192;  // tokens
constexpr int64_t kLength = 2048;
constexpr int64_t kHidden = 4096;
constexpr int64_t kInner = 11008;
constexpr int64_t kVocab = 32000;
constexpr int64_t kHeads = 32;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kParameters = 100'000'000 / kTileElements * kTileElements;
constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;

void BenchMatmul(KernelTimer& bench) {
  struct Case {
    const char* name;
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    DType c_dtype;
  };
  for (const Case& c : {Case{"qkv", kRows, 3 * kHidden, kHidden, false, true, kBF16},
                        {"output", kRows, kHidden, kHidden, false, true, kBF16},
                        {"gate and up", kRows, 2 * kInner, kHidden, false, true, kBF16},
                        {"down", kRows, kHidden, kInner, false, true, kBF16},
                        {"dX of down", kRows, kInner, kHidden, false, false, kBF16},
                        {"dW of down", kHidden, kInner, kRows, true, false, kF32},
                        {"dW of output", kHidden, kHidden, kRows, true, false, kF32},
                        {"logits of 1024", 1024, kVocab, kHidden, false, true, kF32}}) {
    const double mn = static_cast<double>(c.m) * c.n;
    const double bytes = 2.0 * (c.m * c.k + c.k * c.n) +
                         mn * SizeOf(c.c_dtype) * (c.transpose_a ? 2 : 1);
    bench.Measure(absl::StrFormat("matmul %s", c.name), {2 * mn * c.k, bytes},
                  Matmul{.c = bench.Values(c.m * c.n, c.c_dtype),
                         .a = bench.Values(c.m * c.k, kBF16),
                         .b = bench.Values(c.k * c.n, kBF16),
                         .m = c.m,
                         .n = c.n,
                         .k = c.k,
                         .transpose_a = c.transpose_a,
                         .transpose_b = c.transpose_b,
                         .accumulate = c.transpose_a,
                         .dtype = kBF16,
                         .c_dtype = c.c_dtype,
                         .workspace = bench.MatmulWorkspace()});
    bench.FreeAll();
  }
}

struct AttentionShape {
  const char* name;
  int64_t sequences, length, heads, kv_heads, head_dim;
  DType dtype;
};

void BenchAttention(KernelTimer& bench, const AttentionShape& s) {
  const int64_t rows = s.sequences * s.length;
  const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const int64_t output = rows * s.heads * s.head_dim;
  // Two products over the lower triangle of length x length.
  const double operations =
      2.0 * s.length * s.length * s.head_dim * s.heads * s.sequences;
  const double bytes = static_cast<double>(SizeOf(s.dtype)) * (rows * stride + output);
  std::byte* const packed =
      static_cast<std::byte*>(bench.Values(rows * stride, s.dtype));
  std::byte* const gradient =
      static_cast<std::byte*>(bench.Values(rows * stride, s.dtype));
  const int64_t key = s.heads * s.head_dim * SizeOf(s.dtype);
  const int64_t value = key + s.kv_heads * s.head_dim * SizeOf(s.dtype);
  AttentionForward forward{
      .output = bench.Values(output, s.dtype),
      .log_sum_exp = static_cast<float*>(bench.Values(rows * s.heads, kF32)),
      .query = packed,
      .key = packed + key,
      .value = packed + value,
      .documents = bench.Integers(rows, 1),
      .sequences = s.sequences,
      .length = s.length,
      .heads = s.heads,
      .kv_heads = s.kv_heads,
      .head_dim = s.head_dim,
      .row_stride = stride,
      .scale = 0.0884f,
      .dtype = s.dtype};
  bench.Measure(absl::StrFormat("attention %s", s.name), {operations, bytes}, forward);
  AttentionBackward backward{
      .query_gradient = gradient,
      .key_gradient = gradient + key,
      .value_gradient = gradient + value,
      .output_gradient = bench.Values(output, s.dtype),
      .output = forward.output,
      .log_sum_exp = forward.log_sum_exp,
      .query = forward.query,
      .key = forward.key,
      .value = forward.value,
      .documents = forward.documents,
      .sequences = s.sequences,
      .length = s.length,
      .heads = s.heads,
      .kv_heads = s.kv_heads,
      .head_dim = s.head_dim,
      .row_stride = stride,
      .scale = forward.scale,
      .dtype = s.dtype,
      .workspace = bench.Allocate(AttentionBackwardWorkspaceBytes(rows, s.heads))};
  bench.Measure(absl::StrFormat("attention gradient %s", s.name),
                {2.5 * operations, 2 * bytes}, backward);
  bench.FreeAll();
}

void BenchNorm(KernelTimer& bench) {
  const int64_t count = kRows * kHidden;
  void* const input = bench.Values(count, kBF16);
  void* const weight = bench.Values(kHidden, kBF16);
  float* const inverse_rms = static_cast<float*>(bench.Values(kRows, kF32));
  bench.Measure("RMS norm", {0, 4.0 * count},
                RmsNormForward{.output = bench.Values(count, kBF16),
                               .inverse_rms = inverse_rms,
                               .input = input,
                               .weight = weight,
                               .rows = kRows,
                               .width = kHidden,
                               .epsilon = 1e-5f,
                               .dtype = kBF16});
  void* const residual = bench.Values(count, kBF16);
  bench.Measure(
      "RMS norm gradient", {0, 8.0 * count},
      RmsNormBackward{
          .input_gradient = residual,
          .weight_accumulator = static_cast<float*>(bench.Values(kHidden, kF32)),
          .output_gradient = bench.Values(count, kBF16),
          .residual_gradient = residual,
          .input = input,
          .weight = weight,
          .inverse_rms = inverse_rms,
          .rows = kRows,
          .width = kHidden,
          .dtype = kBF16,
          .workspace = bench.Allocate(RmsNormBackwardWorkspaceBytes(kRows, kHidden))});
  bench.FreeAll();
}

void BenchElementwise(KernelTimer& bench) {
  const int64_t inner = kRows * kInner;
  std::byte* const gates = static_cast<std::byte*>(bench.Values(2 * inner, kBF16));
  std::byte* const slopes = static_cast<std::byte*>(bench.Values(2 * inner, kBF16));
  void* const output = bench.Values(inner, kBF16);
  bench.Measure("SwiGLU", {0, 6.0 * inner},
                SwiGluForward{.output = output,
                              .gate = gates,
                              .up = gates + 2 * kInner,
                              .rows = kRows,
                              .width = kInner,
                              .row_stride = 2 * kInner,
                              .dtype = kBF16});
  bench.Measure("SwiGLU gradient", {0, 10.0 * inner},
                SwiGluBackward{.gate_gradient = slopes,
                               .up_gradient = slopes + 2 * kInner,
                               .output_gradient = output,
                               .gate = gates,
                               .up = gates + 2 * kInner,
                               .rows = kRows,
                               .width = kInner,
                               .row_stride = 2 * kInner,
                               .dtype = kBF16});
  bench.Measure(
      "add", {0, 6.0 * inner},
      Add{.output = slopes, .a = gates, .b = output, .count = inner, .dtype = kBF16});
  bench.FreeAll();
  const int64_t table = kLength * kHeadDim / 2;
  bench.Measure("rotary embedding of queries", {0, 4.0 * kRows * kHidden},
                Rope{.values = bench.Values(kRows * 3 * kHidden, kBF16),
                     .cosines = static_cast<float*>(bench.Values(table, kF32)),
                     .sines = static_cast<float*>(bench.Values(table, kF32)),
                     .positions = bench.Integers(kRows, kLength),
                     .rows = kRows,
                     .heads = kHeads,
                     .head_dim = kHeadDim,
                     .row_stride = 3 * kHidden,
                     .dtype = kBF16});
  bench.FreeAll();
}

void BenchEnds(KernelTimer& bench) {
  const int64_t count = kRows * kHidden;
  void* const rows = bench.Values(count, kBF16);
  int32_t* const tokens = bench.Integers(kRows, kVocab);
  bench.Measure("embedding", {0, 4.0 * count},
                EmbeddingForward{.output = rows,
                                 .weight = bench.Values(kVocab * kHidden, kBF16),
                                 .tokens = tokens,
                                 .rows = kRows,
                                 .width = kHidden,
                                 .vocab = kVocab,
                                 .dtype = kBF16});
  EmbeddingBackward backward{
      .accumulator = static_cast<float*>(bench.Values(kVocab * kHidden, kF32)),
      .output_gradient = rows,
      .tokens = tokens,
      .rows = kRows,
      .width = kHidden,
      .vocab = kVocab,
      .dtype = kBF16};
  bench.Measure("embedding gradient", {0, 10.0 * count}, backward);
  backward.tokens = bench.Integers(kRows, 1);
  bench.Measure("embedding gradient, one token", {0, 2.0 * count}, backward);
  bench.FreeAll();

  constexpr int64_t kChunk = 1024;
  bench.Measure(
      "cross-entropy of 1024 rows", {0, 6.0 * kChunk * kVocab},
      CrossEntropy{.losses = static_cast<float*>(bench.Values(kChunk, kF32)),
                   .gradient = bench.Values(kChunk * kVocab, kBF16),
                   .logits = static_cast<float*>(bench.Values(kChunk * kVocab, kF32)),
                   .targets = bench.Integers(kChunk, kVocab),
                   .rows = kChunk,
                   .vocab = kVocab,
                   .scale = 1e-4f,
                   .dtype = kBF16});
  constexpr int64_t kValues = 65536;
  bench.Measure("sum of 65536 in order", {0, 4.0 * kValues},
                SumInOrder{.sum = reinterpret_cast<double*>(bench.Allocate(8)),
                           .values = static_cast<float*>(bench.Values(kValues, kF32)),
                           .count = kValues});
  bench.FreeAll();
}

void BenchUpdate(KernelTimer& bench) {
  float* const a = static_cast<float*>(bench.Values(kParameters, kF32));
  // Second moments are not negative; new memory is zero.
  float* const moment2 = reinterpret_cast<float*>(bench.Allocate(kParameters * 4));
  void* const gradient = bench.Values(kParameters, kBF16);
  bench.Measure("gradient reduction", {0, 6.0 * kParameters},
                ReduceGradient{.gradient = gradient,
                               .tile_sums = static_cast<float*>(
                                   bench.Values(kParameters / kTileElements, kF32)),
                               .a = a,
                               .b = nullptr,
                               .count = kParameters,
                               .dtype = kBF16});
  AdamW op{.weight = bench.Values(kParameters, kBF16),
           .remainder = static_cast<int16_t*>(bench.Values(kParameters, kBF16)),
           .moment1 = a,
           .moment2 = moment2,
           .gradient = gradient,
           .speculated = nullptr,
           .count = kParameters,
           .scalars = {.gradient_scale = 1.0f,
                       .beta1 = 0.9f,
                       .one_minus_beta1 = 0.1f,
                       .beta2 = 0.999f,
                       .one_minus_beta2 = 0.001f,
                       .step_size = 1e-5f,
                       .sqrt_correction2 = 1.0f,
                       .epsilon = 1e-8f,
                       .decay_factor = 1.0f,
                       .l2 = 0.0f},
           .dtype = kBF16,
           .first_bad = reinterpret_cast<int64_t*>(bench.Allocate(8)),
           .first_element = 0};
  bench.Measure("AdamW", {0, 26.0 * kParameters}, op);
  op.speculated = bench.Values(kParameters, kBF16);
  bench.Measure("AdamW, speculation", {0, 16.0 * kParameters}, op);
  bench.FreeAll();
}

void Main(const char* filter) {
  KernelTimer bench(filter);
  BenchMatmul(bench);
  for (const AttentionShape& shape :
       {AttentionShape{"4 x 2048, 32 of 128", 4, 2048, 32, 32, 128, kBF16},
        {"1 x 8192, 32/8 of 128", 1, 8192, 32, 8, 128, kBF16},
        {"4 x 2048, 32/8 of 64", 4, 2048, 32, 8, 64, kBF16},
        {"1 x 2048, 8 of 64, fp32", 1, 2048, 8, 8, 64, kF32}}) {
    BenchAttention(bench, shape);
  }
  BenchNorm(bench);
  BenchElementwise(bench);
  BenchEnds(bench);
  BenchUpdate(bench);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::Main(argc > 1 ? argv[1] : "");
  return 0;
}
