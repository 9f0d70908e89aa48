#include "model/transformer_config.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace strata {

std::vector<TensorShape> TensorsOf(const TransformerConfig& config) {
  const int64_t hidden = config.hidden;
  const int64_t query_width = config.heads * config.head_dim;
  const int64_t key_width = config.kv_heads * config.head_dim;
  std::vector<TensorShape> tensors;
  tensors.push_back({"model.embed_tokens.weight", {config.vocab, hidden}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto add = [&tensors, layer](const char* name, std::vector<int64_t> shape) {
      tensors.push_back({absl::StrCat("model.layers.", layer, ".", name, ".weight"),
                         std::move(shape)});
    };
    add("self_attn.q_proj", {query_width, hidden});
    add("self_attn.k_proj", {key_width, hidden});
    add("self_attn.v_proj", {key_width, hidden});
    add("self_attn.o_proj", {hidden, query_width});
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

}  // namespace strata
