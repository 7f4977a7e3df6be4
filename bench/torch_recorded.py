"""Reserved bytes that PyTorch recorded, and those of `tenure replay --pool caching` for the same requests.

    python3 bench/torch_recorded.py TENURE SNAPSHOT.pickle...

SNAPSHOT is a file of torch.cuda.memory._dump_snapshot with a history. A row for each device: events; segments at the end; the peak
that the events of segments add up to; that of the replay with the settings of the file.
"""
import json
import pickle
import subprocess
import sys

CHANGES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class Data(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("the file names code: %s.%s" % (module, name))


def recorded(snapshot, device):
    """The peak. What is reserved at the end is known, so what was reserved before the history follows from its events."""
    held = most = 0
    for event in snapshot["device_traces"][device]:
        held += CHANGES.get(event["action"], 0) * event["size"]
        most = max(most, held)
    end = sum(it["total_size"] for it in snapshot["segments"] if it.get("device", device) == device)
    return end - held + most


def main():
    tenure, *paths = sys.argv[1:]
    for path in paths:
        with open(path, "rb") as file:
            snapshot = Data(file).load()
        conf = snapshot.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF", "")
        for device, events in enumerate(snapshot["device_traces"]):
            if not events:
                continue
            pool = "caching:" + conf if conf else "caching"
            done = subprocess.run([tenure, "replay", path, "--device", str(device), "--pool", pool, "--json"], stdout=subprocess.PIPE,
                                  check=True)
            replayed = json.loads(done.stdout)["pools"][0]["reserved_peak"]
            was = recorded(snapshot, device)
            print("%s, device %d: %d events, %d segments, recorded %d, replayed %d, %+.2f %%" % (
                path, device, len(events), len(snapshot["segments"]), was, replayed, 100 * (replayed / was - 1)))


if __name__ == "__main__":
    main()
