# OpenBLAS chooses its kernels by the processor; what is equal here must be equal on another one. So
# these tests are of what may add up with BLAS: baselines, and the rewards of Meta-World.
kernels="Nehalem Haswell"
if grep -q avx512f /proc/cpuinfo 2>/dev/null; then kernels="$kernels SkylakeX"; fi
for kernel in $kernels; do
  echo "--- with the kernels of $kernel"
  OPENBLAS_CORETYPE=$kernel "$bin/python" -m pytest --all -p no:cacheprovider -n auto \
    --dist worksteal tests/processors tests/metaworld/test_fast.py \
    tests/vector/test_contract.py::test_meta_world_on_executors_is_equal_to_gymnasiums_sync_vector_env
done
