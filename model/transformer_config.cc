#include "model/transformer_config.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "runtime/base/status.h"

namespace strata {

std::vector<TensorShape> TensorsOf(const TransformerConfig& config) {
  const int64_t hidden = config.hidden;
  const int64_t query_width = config.heads * config.head_dim;
  const int64_t key_width = config.kv_heads * config.head_dim;
  std::vector<TensorShape> tensors;
  tensors.push_back({"model.embed_tokens.weight", {config.vocab, hidden}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto add = [&tensors, layer](const char* name, std::vector<int64_t> shape,
                                       bool biased = false) {
      const int64_t outputs = shape[0];
      const std::string full = absl::StrCat("model.layers.", layer, ".", name);
      tensors.push_back({full + ".weight", std::move(shape)});
      if (biased) tensors.push_back({full + ".bias", {outputs}});
    };
    add("self_attn.q_proj", {query_width, hidden}, config.qkv_bias);
    add("self_attn.k_proj", {key_width, hidden}, config.qkv_bias);
    add("self_attn.v_proj", {key_width, hidden}, config.qkv_bias);
    add("self_attn.o_proj", {hidden, query_width}, config.output_bias);
    if (config.qk_norm) {
      add("self_attn.q_norm", {config.head_dim});
      add("self_attn.k_norm", {config.head_dim});
    }
    add("mlp.gate_proj", {config.intermediate, hidden});
    add("mlp.up_proj", {config.intermediate, hidden});
    add("mlp.down_proj", {hidden, config.intermediate});
    add("input_layernorm", {hidden});
    add("post_attention_layernorm", {hidden});
  }
  tensors.push_back({"model.norm.weight", {hidden}});
  if (!config.tied) tensors.push_back({"lm_head.weight", {config.vocab, hidden}});
  return tensors;
}

int64_t ParameterCount(const TransformerConfig& config) {
  int64_t count = 0;
  for (const TensorShape& tensor : TensorsOf(config)) {
    int64_t elements = 1;
    for (int64_t extent : tensor.shape) elements *= extent;
    count += elements;
  }
  return count;
}

absl::Status CheckWindow(const TransformerConfig& config, int64_t length) {
  if (config.sliding_window == 0 || length <= config.sliding_window) {
    return absl::OkStatus();
  }
  return WithMend(absl::InvalidArgumentError(absl::StrCat(
                      "sliding_window of the model is ", config.sliding_window,
                      ", and rows have ", length,
                      " tokens: sliding windows are not supported, only full "
                      "attention within one")),
                  absl::StrCat("make rows of at most ", config.sliding_window,
                               " tokens (--max_seq_length)"));
}

}  // namespace strata
