# Compiles for WebAssembly with the tools of Debian's package emscripten.
#
# Sources are compiled by clang itself, with the flags that emcc 3.1.6 passes to it, and without warnings, which are a matter of the native build: emcc is a Python program, and starting
# it for each of 700 files takes longer than compiling them. emcc links, because it writes the JavaScript around the module.
set(CMAKE_SYSTEM_NAME Generic) # no shared libraries: CMake makes a static one of libtenure
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-14)
set(CMAKE_C_COMPILER_TARGET wasm32-unknown-emscripten)
set(CMAKE_SYSROOT /usr/share/emscripten/cache/sysroot)
set(CMAKE_AR llvm-ar-14)
set(CMAKE_RANLIB llvm-ranlib-14)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_EXECUTABLE_SUFFIX_C .js)
set(CMAKE_C_FLAGS_INIT "-DEMSCRIPTEN -D__EMSCRIPTEN_major__=3 -D__EMSCRIPTEN_minor__=1 -D__EMSCRIPTEN_tiny__=6 -Dunix -D__unix -D__unix__ \
-Xclang -iwithsysroot/include/compat -mllvm -combiner-global-alias-analysis=false -mllvm -enable-emscripten-sjlj -mllvm -disable-lsr -w")
set(CMAKE_C_FLAGS_MINSIZEREL "-Oz -DNDEBUG" CACHE STRING "Planners have -O2 (CMakeLists.txt)")
# The stack is explicit because its default differs between versions. The module runs `main` once; a new instance of it
# runs the next command.
string(JOIN " " CMAKE_EXE_LINKER_FLAGS_INIT -O2 -sMODULARIZE=1 -sEXPORT_NAME=tenureModule -sENVIRONMENT=web,worker,node
       -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=1MB -sINVOKE_RUN=0 -sEXIT_RUNTIME=1 -sASSERTIONS=0
       -sEXPORTED_RUNTIME_METHODS=FS,ENV,NODEFS,callMain -sFORCE_FILESYSTEM=1 -sNODEJS_CATCH_EXIT=0 -sNODEJS_CATCH_REJECTION=0 -lnodefs.js)
set(CMAKE_C_LINK_EXECUTABLE "emcc <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
