/* session_tell.h - what the answers of run and train both tell about a session. */
#ifndef TN_CLI_SESSION_TELL_H
#define TN_CLI_SESSION_TELL_H

#include "cli/facts.h"
#include "cli/open_model.h"

/* How a budget was met; nothing if no change was needed. */
extern const cli_facts cli_fitted_facts; /* with CLI_FACTS_ALSO */
void cli_fitted_tell(cli_answer *answer, const tn_setup *setup, const tn_fit_answer *from);
/* The results of --check and --poison. */
extern const cli_facts cli_check_facts; /* with CLI_FACTS_ALSO */
void cli_check_tell(cli_answer *answer, const cli_session *session);

#endif
