#include "model/home_state.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/master.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

/// Elements of a layer's flat buffer that are transferred together.
struct FlatPiece {
  int64_t begin, end;
  const SliceLayout* slice;  // null: frozen
  int64_t elements() const { return end - begin; }
};

std::vector<FlatPiece> PiecesOf(const LayerLayout& layout,
                                const LayerPlacement& placement) {
  std::vector<FlatPiece> pieces;
  for (const SliceLayout& slice : placement.slices) {
    pieces.push_back({slice.begin, slice.end, &slice});
  }
  if (layout.trainable_elements < layout.total_elements) {
    pieces.push_back({layout.trainable_elements, layout.total_elements, nullptr});
  }
  return pieces;
}

/// Calls visit(tensor, first element in the tensor, first element in the piece, count)
/// for every tensor that the piece has a part of.
template <typename Visit>
absl::Status ForEachTensor(const LayerLayout& layout, const FlatPiece& piece,
                           const Visit& visit) {
  for (const TensorPlacement& tensor : layout.tensors) {
    const int64_t begin = std::max(tensor.first_element, piece.begin);
    const int64_t end = std::min(tensor.first_element + tensor.count, piece.end);
    if (begin >= end) continue;
    STRATA_RETURN_IF_ERROR(
        visit(tensor, begin - tensor.first_element, begin - piece.begin, end - begin));
  }
  return absl::OkStatus();
}

Extent WeightExtent(const LayerPlacement& placement, const FlatPiece& piece,
                    int64_t unit) {
  return {placement.weights.tier, placement.weights.offset + piece.begin * unit,
          piece.elements() * unit};
}

std::span<std::byte> Bytes(std::vector<std::byte>& buffer, int64_t size_bytes) {
  if (static_cast<int64_t>(buffer.size()) < size_bytes) {
    buffer.resize(static_cast<size_t>(size_bytes));
  }
  return {buffer.data(), static_cast<size_t>(size_bytes)};
}

// Weights, and the state in front of which the remainders stand, from fp32 masters.
void Split(std::span<const float> masters, DType dtype, std::span<std::byte> weights,
           std::span<std::byte> state) {
  if (!state.empty()) std::memset(state.data(), 0, state.size());
  if (dtype == DType::kF32) {
    std::memcpy(weights.data(), masters.data(), weights.size());
    return;
  }
  auto* const high = reinterpret_cast<uint16_t*>(weights.data());
  auto* const low = state.empty() ? nullptr : reinterpret_cast<int16_t*>(state.data());
  for (size_t i = 0; i < masters.size(); ++i) {
    const SplitMaster split = strata::Split(std::bit_cast<uint32_t>(masters[i]));
    high[i] = split.weight;
    if (low != nullptr) low[i] = split.remainder;
  }
}

void Widen(std::span<const std::byte> weights, DType dtype, std::span<float> values) {
  if (dtype == DType::kF32) {
    std::memcpy(values.data(), weights.data(), weights.size());
    return;
  }
  const auto* const high = reinterpret_cast<const uint16_t*>(weights.data());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(high[i]) << 16);
  }
}

// One kind of a slice's state as fp32.
void Unpack(StateKind kind, DType dtype, std::span<const std::byte> weights,
            std::span<const std::byte> state, std::span<float> values) {
  const size_t count = values.size();
  const size_t remainders = dtype == DType::kBF16 ? count * sizeof(int16_t) : 0;
  if (kind != StateKind::kMaster) {
    const size_t offset =
        remainders + (kind == StateKind::kMoment1 ? 0 : count * sizeof(float));
    std::memcpy(values.data(), state.data() + offset, count * sizeof(float));
    return;
  }
  if (dtype == DType::kF32) return Widen(weights, dtype, values);
  const auto* const high = reinterpret_cast<const uint16_t*>(weights.data());
  const auto* const low = reinterpret_cast<const int16_t*>(state.data());
  for (size_t i = 0; i < count; ++i)
    values[i] = std::bit_cast<float>(Join(high[i], low[i]));
}

/// Both homes of a piece in memory.
struct PieceBytes {
  std::span<std::byte> weights, state;  // state is empty for a frozen piece
};

/// Calls visit with each tensor's share of the parts of a piece.
absl::Status VisitParts(const LayerLayout& layout, const FlatPiece& piece,
                        const std::vector<Part>& parts, const PieceBytes& bytes,
                        const PartsVisitor& visit) {
  std::vector<std::span<std::byte>> shares;
  return ForEachTensor(
      layout, piece,
      [&](const TensorPlacement& tensor, int64_t first, int64_t offset, int64_t count) {
        shares.clear();
        int64_t begin = 0;  // of the part in the state
        for (const Part& part : parts) {
          const bool is_weight = shares.empty();
          if (!is_weight && bytes.state.empty()) break;
          const int64_t unit = SizeOf(part.type);
          shares.push_back((is_weight ? bytes.weights : bytes.state)
                               .subspan(static_cast<size_t>(begin + offset * unit),
                                        static_cast<size_t>(count * unit)));
          if (!is_weight) begin += piece.elements() * unit;
        }
        return visit(tensor.spec, first, shares);
      });
}

}  // namespace

absl::Status WriteInitialState(const ModelShape& model,
                               const std::vector<LayerLayout>& layouts,
                               const PlanSet& set, const TensorReader& reader,
                               Executor& executor) {
  std::vector<float> masters;
  std::vector<std::byte> weight_buffer, state_buffer;
  for (size_t l = 0; l < layouts.size(); ++l) {
    const LayerPlacement& placement = set.layout.layers[l];
    for (const FlatPiece& piece : PiecesOf(layouts[l], placement)) {
      masters.assign(static_cast<size_t>(piece.elements()), 0.0f);
      STRATA_RETURN_IF_ERROR(ForEachTensor(
          layouts[l], piece,
          [&](const TensorPlacement& tensor, int64_t first, int64_t offset,
              int64_t count) {
            return reader(tensor.spec, first,
                          std::span(masters).subspan(static_cast<size_t>(offset),
                                                     static_cast<size_t>(count)));
          }));
      const Extent home = WeightExtent(placement, piece, set.trace.format.weight);
      const std::span<std::byte> weights = Bytes(weight_buffer, home.size_bytes);
      const std::span<std::byte> state = Bytes(
          state_buffer, piece.slice == nullptr ? 0 : piece.slice->state.size_bytes);
      Split(masters, model.dtype, weights, state);
      STRATA_RETURN_IF_ERROR(executor.WriteHome(home, weights));
      if (piece.slice != nullptr) {
        STRATA_RETURN_IF_ERROR(executor.WriteHome(piece.slice->state, state));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHomeWeights(const ModelShape& model,
                             const std::vector<LayerLayout>& layouts,
                             const PlanSet& set, const TensorWriter& writer,
                             Executor& executor) {
  std::vector<float> values;
  std::vector<std::byte> buffer;
  for (size_t l = 0; l < layouts.size(); ++l) {
    for (const FlatPiece& piece : PiecesOf(layouts[l], set.layout.layers[l])) {
      const Extent home =
          WeightExtent(set.layout.layers[l], piece, set.trace.format.weight);
      const std::span<std::byte> weights = Bytes(buffer, home.size_bytes);
      STRATA_RETURN_IF_ERROR(executor.ReadHome(home, weights));
      values.resize(static_cast<size_t>(piece.elements()));
      Widen(weights, model.dtype, values);
      STRATA_RETURN_IF_ERROR(ForEachTensor(
          layouts[l], piece,
          [&](const TensorPlacement& tensor, int64_t first, int64_t offset,
              int64_t count) {
            return writer(tensor.spec, first,
                          std::span<const float>(values).subspan(
                              static_cast<size_t>(offset), static_cast<size_t>(count)));
          }));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHomeState(const ModelShape& model,
                           const std::vector<LayerLayout>& layouts, const PlanSet& set,
                           StateKind kind, const TensorWriter& writer,
                           Executor& executor) {
  std::vector<float> values;
  std::vector<std::byte> weight_buffer, state_buffer;
  for (size_t l = 0; l < layouts.size(); ++l) {
    const LayerPlacement& placement = set.layout.layers[l];
    for (const FlatPiece& piece : PiecesOf(layouts[l], placement)) {
      if (piece.slice == nullptr) continue;
      const Extent home = WeightExtent(placement, piece, set.trace.format.weight);
      const std::span<std::byte> weights = Bytes(weight_buffer, home.size_bytes);
      const std::span<std::byte> state =
          Bytes(state_buffer, piece.slice->state.size_bytes);
      STRATA_RETURN_IF_ERROR(executor.ReadHome(home, weights));
      STRATA_RETURN_IF_ERROR(executor.ReadHome(piece.slice->state, state));
      values.resize(static_cast<size_t>(piece.elements()));
      Unpack(kind, model.dtype, weights, state, values);
      STRATA_RETURN_IF_ERROR(ForEachTensor(
          layouts[l], piece,
          [&](const TensorPlacement& tensor, int64_t first, int64_t offset,
              int64_t count) {
            return writer(tensor.spec, first,
                          std::span<const float>(values).subspan(
                              static_cast<size_t>(offset), static_cast<size_t>(count)));
          }));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHomeParts(const ModelShape& model,
                           const std::vector<LayerLayout>& layouts, const PlanSet& set,
                           const PartsVisitor& visit, Executor& executor) {
  const std::vector<Part> parts = PartsOf(model.dtype);
  std::vector<std::byte> weight_buffer, state_buffer;
  for (size_t l = 0; l < layouts.size(); ++l) {
    const LayerPlacement& placement = set.layout.layers[l];
    for (const FlatPiece& piece : PiecesOf(layouts[l], placement)) {
      const Extent home = WeightExtent(placement, piece, set.trace.format.weight);
      PieceBytes bytes{.weights = Bytes(weight_buffer, home.size_bytes)};
      STRATA_RETURN_IF_ERROR(executor.ReadHome(home, bytes.weights));
      if (piece.slice != nullptr) {
        bytes.state = Bytes(state_buffer, piece.slice->state.size_bytes);
        STRATA_RETURN_IF_ERROR(executor.ReadHome(piece.slice->state, bytes.state));
      }
      STRATA_RETURN_IF_ERROR(VisitParts(layouts[l], piece, parts, bytes, visit));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteHomeParts(const ModelShape& model,
                            const std::vector<LayerLayout>& layouts, const PlanSet& set,
                            const PartsVisitor& fill, Executor& executor) {
  const std::vector<Part> parts = PartsOf(model.dtype);
  std::vector<std::byte> weight_buffer, state_buffer;
  for (size_t l = 0; l < layouts.size(); ++l) {
    const LayerPlacement& placement = set.layout.layers[l];
    for (const FlatPiece& piece : PiecesOf(layouts[l], placement)) {
      const Extent home = WeightExtent(placement, piece, set.trace.format.weight);
      const PieceBytes bytes{
          .weights = Bytes(weight_buffer, home.size_bytes),
          .state = Bytes(state_buffer,
                         piece.slice == nullptr ? 0 : piece.slice->state.size_bytes)};
      std::fill(bytes.weights.begin(), bytes.weights.end(), std::byte{0});
      std::fill(bytes.state.begin(), bytes.state.end(), std::byte{0});
      STRATA_RETURN_IF_ERROR(VisitParts(layouts[l], piece, parts, bytes, fill));
      STRATA_RETURN_IF_ERROR(executor.WriteHome(home, bytes.weights));
      if (piece.slice != nullptr) {
        STRATA_RETURN_IF_ERROR(executor.WriteHome(piece.slice->state, bytes.state));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace strata
