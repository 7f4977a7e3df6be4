/* small_model.c - a model that other run times execute in less memory: what a quarter more work
 * gives.
 *
 *     small_model MODEL.tflite|MODEL.onnx [OUTPUT]
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>

#include <tenure/rewrite.h>

int main(int count, char **words) {
    tn_error error = {0};
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    if (count < 2 || count > 3) return fprintf(stderr, "usage: small_model MODEL [OUTPUT]\n"), 2;
    options.share = 0.25;
    options.plan = true; /* of .tflite: and the plan inside */
    tn_status status = tn_split_file(words[1], words[2], &options, &report, &error);
    if (status == TN_E_EXHAUSTED)
        return printf("no less than %llu bytes\n", (unsigned long long)report.whole), 0;
    if (status != TN_OK) return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
    printf("%llu bytes instead of %llu, %u operators instead of %u, %+.1f %% work\n",
           (unsigned long long)report.parts, (unsigned long long)report.whole, report.ops,
           report.whole_ops, 100 * report.work);
    return 0;
}
