/// Every operation that a layer can launch, on one page.
///
/// An operation is a struct of arguments. kernels/cpu/ holds readable references that
/// run at once in the calling task; kernels/cuda/ holds the CUDA forms, which are
/// launched on the stream and tested against the references. Pointers are device
/// memory, row-major, 256-byte aligned, not owned. `T*` stands for void* holding
/// elements of `dtype` (F32 or BF16). Everything is deterministic: no float atomics,
/// reduction order by shape only. Arithmetic inside an operation is fp32; results are
/// rounded once on storing.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host_device.h"
#include "runtime/base/types.h"
#include "runtime/device/device.h"

namespace strata {

/// Target value of a position that is not trained.
inline constexpr int32_t kIgnoredLabel = -100;

/// Elements in one tile of the gradient norm: the unit in which slices are cut, too.
inline constexpr int64_t kTileElements = 8192;

/// c = op(a) * op(b), or c += with `accumulate`. a and b are of `dtype`, c of
/// `c_dtype`. Without transpose_a, the result of a row does not depend on the number of
/// rows. Sums are fp32, that with the old c included. Strides let several matrices
/// share the rows of one activation: then a and c start at a multiple of the element
/// size only.
struct Matmul {
  void* c;        // [m, n], c_dtype, rows c_stride apart
  const void* a;  // [m, k], or [k, m] if transpose_a; rows a_stride apart
  const void* b;  // [k, n], or [n, k] if transpose_b
  int64_t m, n, k;
  int64_t a_stride = 0, c_stride = 0;  // elements from row to row; 0: nothing between
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  DType dtype, c_dtype;
  std::byte* workspace = nullptr;  // Kernels::matmul_workspace_bytes()
};

struct EmbeddingForward {
  void* output;           // T [rows, width]
  const void* weight;     // T [vocab, width]
  const int32_t* tokens;  // [rows], each in [0, vocab)
  int64_t rows, width, vocab;
  DType dtype;
};

/// accumulator[tokens[r]] += output_gradient[r], in row order.
struct EmbeddingBackward {
  float* accumulator;           // [vocab, width]
  const void* output_gradient;  // T [rows, width]
  const int32_t* tokens;        // [rows]
  int64_t rows, width, vocab;
  DType dtype;
};

/// values += bias, row by row.
struct AddBias {
  void* values;      // T [rows, width], rows row_stride apart
  const void* bias;  // T [width]
  int64_t rows, width, row_stride;
  DType dtype;
};

/// accumulator += the sum of the rows.
struct BiasGradient {
  float* accumulator;           // [width]
  const void* output_gradient;  // T [rows, width], rows row_stride apart
  int64_t rows, width, row_stride;
  DType dtype;
  std::byte* workspace;  // BiasGradientWorkspaceBytes(rows, width)
};
/// Sums over rows are made in so many blocks of consecutive rows, CeilDiv(rows,
/// partials) rows each, and then over the blocks in order.
constexpr int64_t RowPartials(int64_t rows) { return rows < 128 ? rows : 128; }
int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width);

/// Rows of a norm that do not lie one behind the other: the heads of a token do, and
/// tokens are further apart.
struct RowGroups {
  int64_t rows = 0;    // of a group, behind each other; 0: all of them are
  int64_t stride = 0;  // elements from group to group
  /// The first element of `row`.
  STRATA_HOST_DEVICE int64_t Start(int64_t row, int64_t width) const {
    return rows == 0 ? row * width : row / rows * stride + row % rows * width;
  }
};

/// output = input / sqrt(mean(input^2) + epsilon) * weight
struct RmsNormForward {
  void* output;        // T [rows, width], grouped
  float* inverse_rms;  // [rows]; kept for the backward
  const void* input;   // T [rows, width], grouped
  const void* weight;  // T [width]
  int64_t rows, width;
  RowGroups groups = {};
  float epsilon;
  DType dtype;
};

/// input_gradient = residual_gradient + d(norm); weight_accumulator += d(weight).
struct RmsNormBackward {
  void* input_gradient;         // T [rows, width], grouped; may be one of the next two
  float* weight_accumulator;    // [width]; nullptr if the weight is frozen
  const void* output_gradient;  // T [rows, width], grouped
  const void* residual_gradient;  // T [rows, width], grouped, or nullptr for zero
  const void* input;              // T [rows, width], grouped
  const void* weight;             // T [width]
  const float* inverse_rms;       // [rows]
  int64_t rows, width;
  RowGroups groups = {};
  DType dtype;
  std::byte* workspace;  // RmsNormBackwardWorkspaceBytes(rows, width)
};
int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t width);

/// Rotates pairs (j, j + head_dim/2) of each head in place by the angle of the
/// position; `inverse` rotates back (the backward pass).
struct Rope {
  void* values;              // T [rows, row_stride], heads start at column 0
  const float* cosines;      // [positions, head_dim / 2]
  const float* sines;        // [positions, head_dim / 2]
  const int32_t* positions;  // [rows], each in the table
  int64_t rows, heads, head_dim, row_stride;
  bool inverse = false;
  DType dtype;
};

/// Causal attention in which a query sees the earlier positions of its own document of
/// its own sequence. rows = sequences * length; heads is a multiple of kv_heads and
/// head h reads key head h / (heads / kv_heads).
struct AttentionForward {
  void* output;              // T [rows, heads * head_dim]
  float* log_sum_exp;        // [heads, rows]; kept for the backward
  const void* query;         // T [rows, row_stride]
  const void* key;           // T [rows, row_stride]
  const void* value;         // T [rows, row_stride]
  const int32_t* documents;  // [rows]; equal number = same document
  int64_t sequences, length, heads, kv_heads, head_dim, row_stride;
  float scale;
  DType dtype;
};

struct AttentionBackward {
  void* query_gradient;         // T [rows, row_stride]
  void* key_gradient;           // T [rows, row_stride]
  void* value_gradient;         // T [rows, row_stride]
  const void* output_gradient;  // T [rows, heads * head_dim]
  const void* output;           // T [rows, heads * head_dim]
  const float* log_sum_exp;     // [heads, rows]
  const void* query;            // T [rows, row_stride]
  const void* key;              // T [rows, row_stride]
  const void* value;            // T [rows, row_stride]
  const int32_t* documents;     // [rows]
  int64_t sequences, length, heads, kv_heads, head_dim, row_stride;
  float scale;
  DType dtype;
  std::byte* workspace;  // AttentionBackwardWorkspaceBytes(...)
};
int64_t AttentionBackwardWorkspaceBytes(int64_t rows, int64_t heads);

/// output = silu(gate) * up
struct SwiGluForward {
  void* output;      // T [rows, width]
  const void* gate;  // T [rows, width], rows row_stride apart
  const void* up;    // T [rows, width], rows row_stride apart
  int64_t rows, width, row_stride;
  DType dtype;
};

struct SwiGluBackward {
  void* gate_gradient;          // T [rows, width], rows row_stride apart
  void* up_gradient;            // T [rows, width], rows row_stride apart
  const void* output_gradient;  // T [rows, width]
  const void* gate;             // T [rows, width], rows row_stride apart
  const void* up;               // T [rows, width], rows row_stride apart
  int64_t rows, width, row_stride;
  DType dtype;
};

/// output = a + b
struct Add {
  void* output;   // T [count]; may be a or b
  const void* a;  // T [count]
  const void* b;  // T [count]
  int64_t count;
  DType dtype;
};

/// Loss and its gradient for some rows of logits. Rows with kIgnoredLabel give loss 0
/// and gradient 0. gradient = (softmax - onehot) * scale; nullptr if only the loss is
/// wanted.
struct CrossEntropy {
  float* losses;           // [rows], unscaled
  void* gradient;          // T [rows, vocab] or nullptr
  const float* logits;     // [rows, vocab]
  const int32_t* targets;  // [rows]
  int64_t rows, vocab;
  float scale;
  DType dtype;  // of gradient
};

/// *sum = values added up in double, in order.
struct SumInOrder {
  double* sum;
  const float* values;  // [count]
  int64_t count;
};

struct Fill {
  void* target;  // set to zero bytes
  int64_t size_bytes;
};

/// Ends a gradient's accumulation: gradient = round(a + b), and the sum of squares of
/// the rounded values of each tile of kTileElements, from which the global norm is
/// made.
struct ReduceGradient {
  void* gradient;    // T [count]
  float* tile_sums;  // [ceil(count / kTileElements)]
  const float* a;    // [count]
  const float* b;    // [count], or nullptr: second use of a shared tensor
  int64_t count;
  DType dtype;  // of gradient
};

/// The scalars of one AdamW step, computed once on the host in double, so that every
/// device uses the same bits. See docs/numerics.md for the formula.
struct AdamWScalars {
  float gradient_scale;  // clip factor / loss scale
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;         // lr / (1 - beta1^t)
  float sqrt_correction2;  // sqrt(1 - beta2^t)
  float epsilon;
  float decay_factor;  // 1 - lr * weight_decay (decoupled), else 1
  float l2;            // weight_decay added to the gradient (coupled), else 0
};

/// g = scale*grad (+ l2*w); m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*(g*g);
/// w = w*decay; w = w - step*m / (sqrt(v)/sqrt_c2 + eps). One operation order, no fused
/// multiply-add, IEEE division and square root: CPU and CUDA agree bit for bit.
/// With a remainder, weight (BF16) and remainder together are the fp32 master w:
/// bits = (weight << 16) + remainder (kernels/master.h).
struct AdamW {
  void* weight;          // BF16 or F32 [count]
  int16_t* remainder;    // [count] if weight is BF16, else nullptr
  float* moment1;        // [count]
  float* moment2;        // [count]
  const void* gradient;  // same dtype as weight [count]
  void* speculated;  // nullptr: update in place. Else: [count], only the new weight is
                     // written here and weight, remainder and moments stay as they are.
  int64_t count;
  AdamWScalars scalars;
  DType dtype;
  /// Not nullptr: two steps in one pass over the state, which is what costs. The update
  /// is done in place, and `speculated` is the weight that a step with `next_gradient`
  /// [count] and `next_scalars` would lead to from there. `kept_gradient`, which may be
  /// `gradient`, then receives next_gradient; nullptr: nobody keeps it.
  const void* next_gradient = nullptr;
  void* kept_gradient = nullptr;
  AdamWScalars next_scalars = {};
  /// Lowered to the lowest `first_element + i` whose new master is not finite or rounds
  /// to infinity; the caller starts it at INT64_MAX. nullptr: nobody wants to know.
  int64_t* first_bad;
  int64_t first_element;
};

/// One entry of the numerics profile (docs/numerics.md): "cpu.threads" is "8".
struct NumericsEntry {
  std::string name, value;
  bool decides_bits = true;  // false: told to people, and free to change

  bool operator==(const NumericsEntry&) const = default;
};

/// One instance per device and trainer; it holds library handles and primitive caches.
/// Not thread-safe per stream: calls of one stream come from one thread; the CPU form
/// may be called from two streams (compute and cpu lane) at once. InvalidArgument if a
/// shape is unsupported; nothing is launched then.
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual int64_t matmul_workspace_bytes() const = 0;
  /// What decides the bits of these operations on elements of `dtype` beside their
  /// arguments: libraries, algorithms, processor.
  virtual std::vector<NumericsEntry> Numerics(DType dtype) const = 0;

  virtual absl::Status Run(Stream& stream, const Matmul& op) = 0;
  virtual absl::Status Run(Stream& stream, const EmbeddingForward& op) = 0;
  virtual absl::Status Run(Stream& stream, const EmbeddingBackward& op) = 0;
  virtual absl::Status Run(Stream& stream, const AddBias& op) = 0;
  virtual absl::Status Run(Stream& stream, const BiasGradient& op) = 0;
  virtual absl::Status Run(Stream& stream, const RmsNormForward& op) = 0;
  virtual absl::Status Run(Stream& stream, const RmsNormBackward& op) = 0;
  virtual absl::Status Run(Stream& stream, const Rope& op) = 0;
  virtual absl::Status Run(Stream& stream, const AttentionForward& op) = 0;
  virtual absl::Status Run(Stream& stream, const AttentionBackward& op) = 0;
  virtual absl::Status Run(Stream& stream, const SwiGluForward& op) = 0;
  virtual absl::Status Run(Stream& stream, const SwiGluBackward& op) = 0;
  virtual absl::Status Run(Stream& stream, const Add& op) = 0;
  virtual absl::Status Run(Stream& stream, const CrossEntropy& op) = 0;
  virtual absl::Status Run(Stream& stream, const SumInOrder& op) = 0;
  virtual absl::Status Run(Stream& stream, const Fill& op) = 0;
  virtual absl::Status Run(Stream& stream, const ReduceGradient& op) = 0;
  virtual absl::Status Run(Stream& stream, const AdamW& op) = 0;
};

struct KernelOptions {
  /// Threads of one CPU operation; part of the numerics profile.
  int threads = 1;
};

/// Kernels for a device of `kind`. Unimplemented if this build has none for it.
absl::StatusOr<std::unique_ptr<Kernels>> CreateKernels(DeviceKind kind,
                                                       const KernelOptions& options);

}  // namespace strata
