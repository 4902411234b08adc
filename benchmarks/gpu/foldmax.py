"""Foldmax, in a JVM of its own: see dev.foldmax.benchmarks.gpu.GpuBenchmark."""

import subprocess

PACKAGE = "dev.foldmax.benchmarks.gpu."
OPTIONS = ["--enable-native-access=ALL-UNNAMED"]


class Foldmax:
    """Answers requests, one at a time; after a failure best replaced, since a device's may last."""

    def __init__(self, java, class_path, data_folder):
        self.process = subprocess.Popen(
            [java, *OPTIONS, "-cp", class_path, PACKAGE + "GpuBenchmark", data_folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.failed = False
        self.description = self.ask("describe")

    def ask(self, verb, /, **values):
        line = " ".join([verb, *(f"{name}={value}" for name, value in values.items())])
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise RuntimeError(f"{line}: {error}") from error
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        if word != "ok":
            self.failed = True
            raise RuntimeError(f"{line}: {rest or 'the process has ended'}")
        return rest

    def numbers(self, verb, /, **values):
        return parse(self.ask(verb, **values))

    def close(self):
        """Ends the process, after a failure without its help."""
        if self.failed:
            self.process.kill()
        self.process.communicate()


def parse(words):
    """The numbers of an answer such as `median=1.5 least=1`."""
    return {name: float(value) for name, value in (word.split("=") for word in words.split())}


def first_calls(java, class_path, cache_folder):
    """Milliseconds of a fresh JVM's first results; see FirstCalls."""
    command = [java, *OPTIONS, f"-Dfoldmax.cache={cache_folder}"]
    command += ["-cp", class_path, PACKAGE + "FirstCalls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return parse(done.stdout.strip().removeprefix("ok "))
