# cmake -DFOLDER=tree -DOUTPUT=tenure_revision.h -P revision.cmake: which commit this is, "" where nobody knows.
# Runs with every build of the command, and touches the file only when it changes.
execute_process(COMMAND git describe --always --dirty=-changed --exclude=* WORKING_DIRECTORY ${FOLDER}
                OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define TENURE_REVISION \"${revision}\"\n")
