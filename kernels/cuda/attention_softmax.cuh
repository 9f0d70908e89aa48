/// Scores to weights, on the fragments of attention_tiles.cuh, for tiles of kKeys keys.
#pragma once

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/reduce.cuh"

namespace strata::cuda {

/// The online softmax of the two rows that a lane works on: row() and row() + 8.
template <int kKeys>
struct RunningSoftmax {
  float max[2] = {-INFINITY, -INFINITY};  // of the unscaled scores
  float sum[2] = {0.0f, 0.0f};            // this lane's part

  /// Turns scores into weights 2^(factor * (score - max)); `shrink` is what earlier
  /// sums are to be multiplied with.
  __device__ void Update(float (&scores)[kKeys / 8][4], float factor,
                         float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = max[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      }
      largest = ReduceLanes<4>(largest, MaxOperation());
      // A row that has seen no key of its document yet has no maximum.
      const float base = largest == -INFINITY ? 0.0f : largest * factor;
      shrink[half] = Exp2(max[half] * factor - base);
      max[half] = largest;
      float added = 0.0f;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = Exp2(scores[n][i] * factor - base);
          added += scores[n][i];
        }
      }
      sum[half] = sum[half] * shrink[half] + added;
    }
  }
};

/// Scores of keys that a query may not see become -infinity. `query` is that of the
/// lane's first row; key i of the tile is `first_key` + i.
template <int kKeys>
__device__ void MaskScores(float (&scores)[kKeys / 8][4], int query, int first_key,
                           const int (&query_documents)[2], const int32_t* documents) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = n * 8 + LanePlace::column() + i % 2;
      const bool visible = first_key + key <= query + i / 2 * 8 &&
                           documents[key] == query_documents[i / 2];
      if (!visible) scores[n][i] = -INFINITY;
    }
  }
}

}  // namespace strata::cuda
