# A processor without AVX-512 runs other kernels. The release build tests them too. No sanitizer sees into them, as oneDNN
# writes them at run time.
if(NOT TENURE_TEST_PREFIX)
  tenure_test(kernels.dnnl_train_avx2
              COMMAND sh -c "grep -q avx512 /proc/cpuinfo || { echo 'SKIP: no AVX-512 here, so kernels.dnnl_train tests this'; exit 77; }; ONEDNN_MAX_CPU_ISA=AVX2 exec $<TARGET_FILE:test_kernels_dnnl_train>")
endif()
