#include "kernels/cpu/bf16_matmul.h"

#include <absl/strings/str_format.h>
#include <dnnl.h>

#include <algorithm>
#include <atomic>

#include "kernels/cpu/onednn.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

/// Scratch of one thread. The largest that oneDNN asked for over the shapes of models
/// from 135M to 8B parameters was 1.7 MB.
constexpr int64_t kScratchBytes = 4 * kMiB;
/// Rows are shared out in multiples of this.
constexpr int64_t kRowMultiple = 16;

absl::Status ToStatus(dnnl_status_t status, absl::string_view what) {
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("oneDNN failed to %s (dnnl_status_t %d)", what, status));
}

dnnl_data_type_t ToDnnl(DType dtype) {
  return dtype == DType::kF32 ? dnnl_f32 : dnnl_bf16;
}

}  // namespace

/// One oneDNN primitive with its arguments bound to memory objects of its own.
class Bf16Matmul::Product {
 public:
  ~Product() {
    for (dnnl_memory_t memory : {a_, b_, c_, scratch_}) {
      if (memory != nullptr) dnnl_memory_destroy(memory);
    }
    if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
    if (primitive_desc_ != nullptr) dnnl_primitive_desc_destroy(primitive_desc_);
    if (attributes_ != nullptr) dnnl_primitive_attr_destroy(attributes_);
  }

  absl::Status Create(const Key& key, dnnl_engine* engine) {
    STRATA_RETURN_IF_ERROR(ToStatus(Describe(key, engine), "plan a matmul"));
    const dnnl_memory_desc_t* const scratch =
        dnnl_primitive_desc_query_md(primitive_desc_, dnnl_query_scratchpad_md, 0);
    scratch_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
    STRATA_RETURN_IF_ERROR(
        ToStatus(dnnl_primitive_create(&primitive_, primitive_desc_), "make a matmul"));
    const auto make = [engine](dnnl_memory_t* memory, const dnnl_memory_desc_t* desc) {
      return ToStatus(dnnl_memory_create(memory, desc, engine, DNNL_MEMORY_NONE),
                      "describe memory");
    };
    STRATA_RETURN_IF_ERROR(make(&a_, &a_desc_));
    STRATA_RETURN_IF_ERROR(make(&b_, &b_desc_));
    STRATA_RETURN_IF_ERROR(make(&c_, &c_desc_));
    return make(&scratch_, scratch);
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }

  dnnl_status_t Execute(dnnl_stream* stream, const void* a, const void* b, void* c,
                        void* scratch) const {
    dnnl_memory_set_data_handle(a_, const_cast<void*>(a));
    dnnl_memory_set_data_handle(b_, const_cast<void*>(b));
    dnnl_memory_set_data_handle(c_, c);
    dnnl_memory_set_data_handle(scratch_, scratch);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, a_},
                                         {DNNL_ARG_WEIGHTS, b_},
                                         {DNNL_ARG_DST, c_},
                                         {DNNL_ARG_SCRATCHPAD, scratch_}};
    return dnnl_primitive_execute(primitive_, stream, 4, arguments);
  }

 private:
  dnnl_status_t Describe(const Key& key, dnnl_engine* engine) {
    const auto describe = [](dnnl_memory_desc_t* desc, int64_t rows, int64_t columns,
                             int64_t row_stride, int64_t column_stride, DType dtype) {
      const dnnl_dims_t extents = {rows, columns};
      const dnnl_dims_t strides = {row_stride, column_stride};
      return dnnl_memory_desc_init_by_strides(desc, 2, extents, ToDnnl(dtype), strides);
    };
    dnnl_status_t status =
        describe(&a_desc_, key.m, key.k, key.transpose_a ? 1 : key.a_stride,
                 key.transpose_a ? key.a_stride : 1, DType::kBF16);
    if (status != dnnl_success) return status;
    status = describe(&b_desc_, key.k, key.n, key.transpose_b ? 1 : key.n,
                      key.transpose_b ? key.k : 1, DType::kBF16);
    if (status != dnnl_success) return status;
    status = describe(&c_desc_, key.m, key.n, key.c_stride, 1, key.c_dtype);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_attr_create(&attributes_);
    if (status != dnnl_success) return status;
    dnnl_primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user);
    if (key.accumulate) {
      status = AppendSum();
      if (status != dnnl_success) return status;
    }
    dnnl_matmul_desc_t matmul;
    status = dnnl_matmul_desc_init(&matmul, &a_desc_, &b_desc_, nullptr, &c_desc_);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(&primitive_desc_, &matmul, attributes_, engine,
                                      nullptr);
  }

  dnnl_status_t AppendSum() {
    dnnl_post_ops_t post_ops;
    dnnl_status_t status = dnnl_post_ops_create(&post_ops);
    if (status != dnnl_success) return status;
    status = dnnl_post_ops_append_sum(post_ops, 1.0f);
    if (status == dnnl_success) {
      status = dnnl_primitive_attr_set_post_ops(attributes_, post_ops);
    }
    dnnl_post_ops_destroy(post_ops);
    return status;
  }

  dnnl_memory_desc_t a_desc_, b_desc_, c_desc_;
  dnnl_primitive_attr_t attributes_ = nullptr;
  dnnl_primitive_desc_t primitive_desc_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  dnnl_memory_t a_ = nullptr, b_ = nullptr, c_ = nullptr, scratch_ = nullptr;
  int64_t scratch_bytes_ = 0;
};

bool Bf16Matmul::Supported() {
  // Each instruction set's number contains the bits of those below it.
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
         dnnl_cpu_isa_avx512_core_bf16;
}

absl::StatusOr<std::unique_ptr<Bf16Matmul>> Bf16Matmul::Create(ThreadPool* pool) {
  std::unique_ptr<Bf16Matmul> matmul(new Bf16Matmul(pool));
  STRATA_RETURN_IF_ERROR(
      ToStatus(dnnl_engine_create(&matmul->engine_, dnnl_cpu, 0), "make an engine"));
  STRATA_RETURN_IF_ERROR(ToStatus(
      dnnl_stream_create(&matmul->stream_, matmul->engine_, dnnl_stream_default_flags),
      "make a stream"));
  return matmul;
}

Bf16Matmul::Bf16Matmul(ThreadPool* pool) : pool_(pool) {
  MutexLock lock(mutex_);
  parts_.resize(static_cast<size_t>(pool->threads()));
}

Bf16Matmul::~Bf16Matmul() {
  {
    MutexLock lock(mutex_);
    products_.clear();
  }
  if (stream_ != nullptr) dnnl_stream_destroy(stream_);
  if (engine_ != nullptr) dnnl_engine_destroy(engine_);
}

int64_t Bf16Matmul::workspace_bytes() const { return pool_->threads() * kScratchBytes; }

absl::StatusOr<Bf16Matmul::Product*> Bf16Matmul::FindOrMake(const Key& key) {
  std::unique_ptr<Product>& product = products_[key];
  if (product == nullptr) {
    auto made = std::make_unique<Product>();
    STRATA_RETURN_IF_ERROR(made->Create(key, engine_));
    product = std::move(made);
  }
  return product.get();
}

absl::StatusOr<bool> Bf16Matmul::Run(const Matmul& op) {
  const int64_t share = AlignUp(CeilDiv(op.m, pool_->threads()), kRowMultiple);
  const int64_t parts = CeilDiv(op.m, share);
  MutexLock lock(mutex_);
  const OneThread one_thread_while_planning;
  for (int64_t part = 0; part < parts; ++part) {
    STRATA_ASSIGN_OR_RETURN(
        parts_[part], FindOrMake({part, std::min(share, op.m - part * share), op.n,
                                  op.k, op.a_stride, op.c_stride, op.transpose_a,
                                  op.transpose_b, op.accumulate, op.c_dtype}));
    if (parts_[part]->scratch_bytes() > kScratchBytes) return false;
  }
  Product* const* const products = parts_.data();
  std::atomic<dnnl_status_t> failure = dnnl_success;
  pool_->Run(parts, [&](int64_t part) {
    const OneThread one_thread;
    const int64_t row = part * share;
    const int64_t a_first = op.transpose_a ? row : row * op.a_stride;
    const dnnl_status_t status = products[part]->Execute(
        stream_, static_cast<const uint16_t*>(op.a) + a_first, op.b,
        static_cast<std::byte*>(op.c) + row * op.c_stride * SizeOf(op.c_dtype),
        op.workspace + part * kScratchBytes);
    if (status != dnnl_success) failure = status;
  });
  STRATA_RETURN_IF_ERROR(ToStatus(failure, "multiply"));
  return true;
}

}  // namespace strata
