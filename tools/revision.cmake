# cmake -DFOLDER=tree -DOUTPUT=tenure_revision.h -P revision.cmake: which commit this is, "" where nobody knows.
# Runs with every build of the command, and touches the file only when it changes.
#
# `git archive` writes the commit here (.gitattributes), so an archive knows it wherever it is unpacked, also inside the checkout
# of another project. Eight digits, because git's own choice depends on the number of objects that a clone has.
set(commit "$Format:%H$")
set(revision "")
if(commit MATCHES "^[0-9a-f]+$")
  string(SUBSTRING "${commit}" 0 8 revision)
elseif(EXISTS ${FOLDER}/.git)
  execute_process(COMMAND git describe --always --abbrev=8 --dirty=-changed --exclude=* WORKING_DIRECTORY ${FOLDER}
                  OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define TENURE_REVISION \"${revision}\"\n")
