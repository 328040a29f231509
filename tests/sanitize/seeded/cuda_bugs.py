"""Seeded bugs of CUDA C++ programs."""

from __future__ import annotations

from .bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        name="one_copy_left_in_flight",
        file="cuda/column_sums.cu",
        old="__pipeline_wait_prior(STAGES - 1);",
        new="__pipeline_wait_prior(STAGES);",
        line="sum += ring[row % STAGES][threadIdx.x];",
        also=("__pipeline_memcpy_async(stage + 4 * threadIdx.x, row + 4 * threadIdx.x, 16);",),
        rule="in-flight",
        kind="a wait for cp.async leaves one group too many in flight",
        interpreter="none",
    ),
    Bug(
        name="half_of_the_bytes_expected",
        file="cuda/row_products.cu",
        old="barrier_arrive_tx(ready, 1, sizeof(a_row) + sizeof(b_row));",
        new="barrier_arrive_tx(ready, 1, sizeof(a_row));",
        line="sum += a_row[i] * b_row[i];",
        also=(
            "cuda::device::memcpy_async_tx(b_row, b + blockIdx.x * WIDTH, bytes, ready);",
            "token = cuda::device::barrier_arrive_tx(ready, 1, sizeof(a_row));",
        ),
        rule="in-flight",
        kind="an mbarrier expects the bytes of only one of two bulk copies",
        interpreter="none",
    ),
    Bug(
        name="vectors_of_odd_rows",
        file="cuda/scale_rows.cu",
        old="int vectors = width % 4 == 0 ? width / 4 : 0;",
        new="int vectors = width / 4;",
        line="float4 v = reinterpret_cast<const float4*>(row)[i];",
        also=("reinterpret_cast<float4*>(out)[i] = v;",),
        rule="alignment",
        kind="rows are loaded as float4 although their width is no multiple of 4",
        interpreter="none",
    ),
    Bug(
        name="one_buffer_read_and_written",
        file="cuda/block_scan.cu",
        old="buffers[out][tid] = sum;",
        new="buffers[in][tid] = sum;",
        line="buffers[in][tid] = sum;",
        also=("sum += buffers[in][tid - distance];",),
        rule="race",
        kind="the index of a double buffer is the wrong one of the two",
        interpreter="none",
    ),
    Bug(
        name="product_beyond_32_bits",
        file="cuda/resample.cu",
        old="int source = static_cast<int>(static_cast<long long>(i) * step >> 16);",
        new="int source = i * step >> 16;",
        line="y[i] = x[source];",
        rule="bounds",
        kind="a fixed-point index is multiplied in 32 bits and passes 2^31",
        interpreter="none",
    ),
    Bug(
        name="flag_of_block_scope",
        file="cuda/running_sums.cu",
        old="cuda::thread_scope_device",
        new="cuda::thread_scope_block",
        line="while (Flag(ready[block - 1]).load(cuda::memory_order_acquire) == 0) {",
        also=(
            "Flag(ready[block]).store(1, cuda::memory_order_release);",
            "before = carries[block - 1];",
            "carries[block] = before + total;",
        ),
        rule="scope",
        kind="a flag between blocks has the scope of one block",
        interpreter="none",
    ),
    Bug(
        name="lanes_that_left_early",
        file="cuda/row_maxima.cu",
        old="    int largest = lane < width ? x[row * width + lane] : cuda::std::numeric_limits<int>::min();\n",
        new=(
            "    if (lane >= width) {\n        return;\n    }\n"
            "    int largest = x[row * width + lane];\n"
        ),
        line="largest = max(largest, __shfl_down_sync(0xffffffff, largest, offset));",
        rule="divergence",
        kind="a shuffle of the whole warp after some lanes have returned",
        interpreter="none",
    ),
    Bug(
        name="blocks_that_do_not_wait",
        file="cuda/normalize.cu",
        old="    wait_for_all_blocks(arrived);\n",
        new="    __syncthreads();\n",
        line="maximum = max(maximum, block_maxima[block]);",
        also=("block_maxima[blockIdx.x] = block_maximum;",),
        rule="race",
        kind="results of other blocks are read after a barrier of one block",
        interpreter="none",
    ),
)
