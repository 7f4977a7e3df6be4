# Kernels are others where there is no AVX-512: what training runs, once more without.
tenure_test(kernels.dnnl_train_avx2
            COMMAND ${CMAKE_COMMAND} -E env ONEDNN_MAX_CPU_ISA=AVX2 $<TARGET_FILE:test_kernels_dnnl_train>)
