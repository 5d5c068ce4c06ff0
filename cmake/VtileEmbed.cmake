# SPDX-License-Identifier: Apache-2.0
# vt_embed(<target> <symbol> <pattern>...): puts the matching files into a static library.
# They are found again by tiles/embedded.h: `<symbol>[]` holds path in the project, bytes, length.

function(vt_embed target symbol)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL INTERFACE_LIBRARY)
        return()
    endif()
    vt_glob(files ${ARGN})
    set(assembly ".section .rodata\n")
    set(table "")
    set(externs "")
    set(index 0)
    foreach(file ${files})
        file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${file})
        # A zero byte follows each file, so that text can be used as a string.
        string(APPEND assembly ".globl ${symbol}_${index}, ${symbol}_${index}_end\n"
            "${symbol}_${index}:\n.incbin \"${file}\"\n${symbol}_${index}_end:\n.byte 0\n")
        string(APPEND externs "extern const char ${symbol}_${index}[], ${symbol}_${index}_end[];\n")
        string(APPEND table "    {\"${path}\", ${symbol}_${index}, ${symbol}_${index}_end},\n")
        math(EXPR index "${index} + 1")
    endforeach()
    string(APPEND assembly ".section .note.GNU-stack,\"\",%progbits\n")
    set(generated ${CMAKE_BINARY_DIR}/generated)
    file(CONFIGURE OUTPUT ${generated}/${symbol}.S CONTENT "${assembly}" @ONLY)
    file(CONFIGURE OUTPUT ${generated}/${symbol}.c @ONLY CONTENT
"#include \"tiles/embedded.h\"
${externs}
const struct tiles_embedded_file ${symbol}[] = {
${table}    {0},
};
const size_t ${symbol}_count = ${index};
")
    set_source_files_properties(${generated}/${symbol}.S PROPERTIES OBJECT_DEPENDS "${files}")
    target_sources(${target} PRIVATE ${generated}/${symbol}.S ${generated}/${symbol}.c)
endfunction()
