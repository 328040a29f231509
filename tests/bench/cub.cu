// CUB's device-wide functions for `cub.py`, with its build command. Without memory, they return how much they need.
#include <cstdint>
#include <cub/cub.cuh>

extern "C" size_t sort_keys(void* memory, size_t bytes, const uint32_t* in, uint32_t* out, uint64_t n, cudaStream_t s) {
  return cub::DeviceRadixSort::SortKeys(memory, bytes, in, out, n, 0, 32, s) == cudaSuccess ? bytes : 0;
}

extern "C" size_t inclusive_sum(void* memory, size_t bytes, const float* in, float* out, uint64_t n, cudaStream_t s) {
  return cub::DeviceScan::InclusiveSum(memory, bytes, in, out, n, s) == cudaSuccess ? bytes : 0;
}
