/// The shape of a model of the Llama kind (Llama, Mistral, Qwen2, Qwen3): what planning
/// needs to know of it, without any file.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace strata {

enum class RopeType : uint8_t { kDefault, kLinear, kLlama3 };

struct RopeConfig {
  double theta = 10000;
  RopeType type = RopeType::kDefault;
  double factor = 1;                  // kLinear and kLlama3
  double low_freq_factor = 1;         // kLlama3
  double high_freq_factor = 1;        // kLlama3
  int64_t original_max_position = 0;  // kLlama3

  bool operator==(const RopeConfig&) const = default;
};

struct TransformerConfig {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;  // even; heads * head_dim need not be hidden
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  int64_t max_position = 2048;
  bool qkv_bias = false;     // q_proj, k_proj and v_proj have biases
  bool output_bias = false;  // o_proj has one
  bool qk_norm = false;      // an RMS norm of each head of queries and keys
  /// Tokens that a query may see, itself included; 0: all before it. Rows must not be
  /// longer: nothing cuts attention off.
  int64_t sliding_window = 0;
  bool tied = false;  // the head is the embedding: one tensor, stored and counted once
  DType dtype = DType::kF32;  // in which the checkpoint says that it is stored

  bool operator==(const TransformerConfig&) const = default;
};

struct TensorShape {
  std::string name;  // as Hugging Face names it
  std::vector<int64_t> shape;
};

/// Every trained tensor, in the order of a Hugging Face state dict. No lm_head.weight
/// if the model is tied.
std::vector<TensorShape> TensorsOf(const TransformerConfig& config);

int64_t ParameterCount(const TransformerConfig& config);

/// InvalidArgument if rows of `length` tokens are longer than the model's sliding
/// window: every query would see more than the model was trained to see.
absl::Status CheckWindow(const TransformerConfig& config, int64_t length);

/// Well-known shapes by name ("llama-3.1-8b"), for planning without any file.
std::optional<TransformerConfig> BuiltinShape(absl::string_view name);
std::vector<std::string> BuiltinShapeNames();

}  // namespace strata
