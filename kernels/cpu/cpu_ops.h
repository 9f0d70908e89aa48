/// The CPU form of each operation of kernels/ops.h but Matmul: one file each. They run
/// in the calling thread and the pool's, and return when the result is there. Results
/// do not depend on the number of threads.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace strata {

void Compute(ThreadPool& pool, const EmbeddingForward& op);
void Compute(ThreadPool& pool, const EmbeddingBackward& op);
void Compute(ThreadPool& pool, const AddBias& op);
void Compute(ThreadPool& pool, const BiasGradient& op);
void Compute(ThreadPool& pool, const RmsNormForward& op);
void Compute(ThreadPool& pool, const RmsNormBackward& op);
void Compute(ThreadPool& pool, const Rope& op);
void Compute(ThreadPool& pool, const AttentionForward& op);
void Compute(ThreadPool& pool, const AttentionBackward& op);
void Compute(ThreadPool& pool, const SwiGluForward& op);
void Compute(ThreadPool& pool, const SwiGluBackward& op);
void Compute(ThreadPool& pool, const Add& op);
void Compute(ThreadPool& pool, const CrossEntropy& op);
void Compute(ThreadPool& pool, const SumInOrder& op);
void Compute(ThreadPool& pool, const Fill& op);
void Compute(ThreadPool& pool, const ReduceGradient& op);
void Compute(ThreadPool& pool, const AdamW& op);

}  // namespace strata
