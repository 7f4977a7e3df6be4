"""What tests of `tenure train` share: checks that are counted, and runs of the command."""
import subprocess
import sys

failures = []


def must(holds, what):
    if not holds:
        print("FAILED:", what)
        failures.append(what)


def run(tenure, *words, status=0):
    done = subprocess.run([tenure, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    must(done.returncode == status, "%s: status %d\n%s" % (" ".join(words), done.returncode, done.stderr))
    return done


def end():
    """Ends the test: exit status 1 if a check failed."""
    sys.exit(1 if failures else 0)
