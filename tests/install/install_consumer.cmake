# Installs BUILD into an empty prefix below SCRATCH, holds the headers there to layering.py, then builds and runs the
# consumer against that prefix alone.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(ENV{CMAKE_PREFIX_PATH} "")
if(SANITIZE)
  set(flags "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}")
endif()

file(REMOVE_RECURSE "${SCRATCH}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/prefix")
run("${PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/../layering.py" "${CMAKE_CURRENT_LIST_DIR}/../.."
  "${SCRATCH}/prefix/${INCLUDE_DIR}")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${SCRATCH}/build" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER}" ${flags})
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run("${SCRATCH}/build/consumer")
