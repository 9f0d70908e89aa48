/// STRATA_HOST_DEVICE marks arithmetic that the CPU and the CUDA kernels share, so that
/// there is one text of every formula on whose bits both must agree. Outside of nvcc it
/// is nothing.
#pragma once

#if defined(__CUDACC__)
#define STRATA_HOST_DEVICE __host__ __device__
#else
#define STRATA_HOST_DEVICE
#endif
