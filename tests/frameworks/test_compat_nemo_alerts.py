# SPDX-License-Identifier: Apache-2.0
"""lapse.compat.nemo: its alerts, by mail to a server of the test's own and in real time, and its
analysis, against scipy and numpy."""

import base64
import random
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import threading
from email import message_from_bytes
from types import SimpleNamespace

import pytest
from conftest import need

from lapse.compat import nemo
from lapse.compat.nemo import PerformanceAlerting, PerformanceAnalyzer, RealTimeMonitor

pytestmark = pytest.mark.timeout(300)
GIB = 1 << 30


# ---- alerts ------------------------------------------------------------------------------------


BASE = {"loss": 2.0, "training_speed": 10.0}


def alerts(current, base=BASE, **options):
    return PerformanceAlerting(**options).check_alerts(current, base)


def test_thresholds_and_texts():
    assert PerformanceAlerting().alert_thresholds == {
        "loss_increase": 0.1, "gpu_memory": 0.9, "cpu_usage": 0.95, "training_speed": 0.5,
    }  # fmt: skip
    found = alerts({"loss": 2.246, "cpu_percent": 97.0, "training_speed": 4.0, "gpu_memory": {
        "gpu_0": {"memory_used": 931.0, "memory_total": 1000.0},
        1: {"memory_used": 100.0, "memory_total": 1000.0}}})  # fmt: skip
    assert found == [
        {"type": "loss_increase", "message": "Training loss increased by 12.3%",
         "severity": "warning"},
        {"type": "gpu_memory", "message": "GPU 0 memory usage is 93.1%", "severity": "warning"},
        {"type": "cpu_usage", "message": "CPU usage is 97.0%", "severity": "warning"},
        {"type": "training_speed", "message": "Training speed decreased by 60.0%",
         "severity": "warning"},
    ]  # fmt: skip
    assert alerts({"loss": 2.19, "cpu_percent": 95.0, "training_speed": 5.1}) == []
    assert alerts({"loss": 2.12}, thresholds={"loss_increase": 0.05})
    with pytest.raises(ValueError, match="loss_increases"):
        PerformanceAlerting(thresholds={"loss_increases": 1})


def test_what_is_not_known_is_not_checked():
    assert alerts({}) == []
    assert alerts({"loss": None, "cpu_percent": None, "gpu_memory": None}, {}) == []
    assert alerts({"loss": 5.0, "training_speed": 1.0}, {"loss": 0.0, "training_speed": 0}) == []
    assert alerts({"loss": float("nan")}) == []


def test_losses_below_zero():
    """Of reinforcement learning: -0.5 is 50 % more than -1, and -1.5 is less."""
    found = alerts({"loss": -0.5}, {"loss": -1.0})
    assert [one["message"] for one in found] == ["Training loss increased by 50.0%"]
    assert alerts({"loss": -1.5}, {"loss": -1.0}) == []
    assert alerts({"loss": -1.05}, {"loss": -1.0}) == []


def test_memory_is_the_share_of_the_device(monkeypatch):
    """An allocator that is full is no alert while the device is not; and the other way round."""
    full = {"memory_allocated": 990.0, "memory_reserved": 1000.0}
    assert alerts({"gpu_memory": {"gpu_0": {**full, "memory_total": 80000.0}}}) == []
    found = alerts({"gpu_memory": {"gpu_0": {"memory_allocated": 10.0, "memory_reserved": 76000.0,
                                             "memory_total": 80000.0}}})  # fmt: skip
    assert found[0]["message"] == "GPU 0 memory usage is 95.0%"
    # The document's form says nothing of the device: PyTorch is asked.
    assert alerts({"gpu_memory": {"gpu_7": full, "x": {"memory_reserved": 0.0}}}) == []
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1,
                           get_device_properties=lambda i: SimpleNamespace(total_memory=GIB))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert alerts({"gpu_memory": {"gpu_0": full}})[0]["message"] == "GPU 0 memory usage is 97.7%"


def test_same_alert_again_only_after_a_while(monkeypatch):
    from lapse.compat.nemo import _alerting

    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(_alerting, "time", clock)
    alerting = PerformanceAlerting()

    def send(kind, message):
        return alerting.send_alert({"type": kind, "message": message, "severity": "warning"})

    assert send("cpu_usage", "CPU usage is 97.0%")
    assert send("gpu_memory", "GPU 0 memory usage is 93.1%")
    clock.now += 299
    assert not send("cpu_usage", "CPU usage is 99.5%")
    assert send("gpu_memory", "GPU 1 memory usage is 93.1%")  # another one
    clock.now += 2
    assert send("cpu_usage", "CPU usage is 98.0%")


# ---- mail --------------------------------------------------------------------------------------


class MailServer(threading.Thread):
    """SMTP, as much as a client needs. starttls: the context, or None. answers: for each
    connection what DATA is answered."""

    def __init__(self, context=None, answers=()):
        super().__init__(daemon=True)
        self.context, self.answers = context, list(answers)
        self.mails, self.lines, self.logins, self.encrypted = [], [], [], []
        self.gate = threading.Event()
        self.gate.set()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.gate.wait()
            try:
                self.talk(connection)
            except OSError:
                pass

    def talk(self, connection):
        secure, file = False, connection.makefile("rb")

        def say(*lines):
            connection.sendall("".join(line + "\r\n" for line in lines).encode())

        say("220 test")
        while True:
            line = file.readline().decode().rstrip("\r\n")
            self.lines.append(line)
            word = line[:4].upper()
            if not line or word == "QUIT":
                connection.close()
                return
            if word == "EHLO":
                say("250-test", *(["250-STARTTLS"] if self.context and not secure else []),
                    "250 AUTH PLAIN")  # fmt: skip
            elif word == "STAR":
                say("220 go on")
                connection = self.context.wrap_socket(connection, server_side=True)
                secure, file = True, connection.makefile("rb")
            elif word == "AUTH":
                self.logins.append(base64.b64decode(line.split()[2]).decode().split("\0")[1:])
                say("235 in")
            elif word == "DATA":
                say("354 go on")
                body = b""
                while not body.endswith(b"\r\n.\r\n"):
                    body += file.readline()
                answer = self.answers.pop(0) if self.answers else "250 taken"
                if answer.startswith("250"):
                    self.mails.append(message_from_bytes(body[:-5]))
                    self.encrypted.append(secure)
                say(answer)
            else:
                say("250 fine")

    def close(self):
        self.socket.close()


@pytest.fixture
def server():
    made = []

    def make(*arguments, **options):
        made.append(MailServer(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.gate.set()
        one.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the mail server's certificate")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return SimpleNamespace(context=context, file=folder / "cert.pem")


ALERT = {"type": "cpu_usage", "message": "CPU usage is 97.0%", "severity": "warning"}


def config(server, **more):
    return {"from": "a@example.org", "to": "b@example.org", "smtp_server": "localhost",
            "smtp_port": server.port, "username": "me", "password": "hunter2", **more}  # fmt: skip


def test_alert_by_mail(server, certificate, monkeypatch):
    """With STARTTLS and login; the certificate is checked."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    one = server(certificate.context)
    alerting = PerformanceAlerting(config(one))
    assert alerting.send_alert(ALERT) and alerting.wait(30)
    assert alerting.mailer.failed == 0
    (mail,) = one.mails
    assert (mail["Subject"], mail["From"], mail["To"]) == (
        "NeMo RL Alert: cpu_usage", "a@example.org", "b@example.org")  # fmt: skip
    lines = mail.get_payload(decode=True).decode().split("\n")
    assert lines[0] == "NeMo RL Training Alert"
    assert "Type: cpu_usage" in lines and "Message: CPU usage is 97.0%" in lines
    assert "Severity: warning" in lines and any(line.startswith("Time: 2") for line in lines)
    assert one.encrypted == [True] and one.logins == [["me", "hunter2"]]


def test_an_unknown_certificate_gets_no_password(server, certificate):
    one = server(certificate.context)
    alerting = PerformanceAlerting(config(one), retry=0.001)
    alerting.send_alert(ALERT)
    assert alerting.wait(60) and alerting.mailer.failed == 1
    assert one.logins == [] and one.mails == []
    alerting = PerformanceAlerting(config(one, verify=False))
    alerting.send_alert(ALERT)
    assert alerting.wait(30) and len(one.mails) == 1


def test_no_password_without_encryption(server):
    one = server()
    alerting = PerformanceAlerting(config(one))
    alerting.send_alert(ALERT)
    assert alerting.wait(30)
    assert alerting.mailer.failed == 1 and one.logins == [] and one.mails == []
    alerting = PerformanceAlerting(config(one, starttls=False, username=""))
    alerting.send_alert(ALERT)
    assert alerting.wait(30) and len(one.mails) == 1 and one.logins == []


def test_training_does_not_wait_for_mail(server):
    """The server does not answer until all alerts have been given."""
    one = server()
    one.gate.clear()
    alerting = PerformanceAlerting(config(one, starttls=False, username=""), cooldown=0)
    for _ in range(3):
        assert alerting.send_alert(ALERT)
    assert one.mails == [] and not alerting.wait(0)
    one.gate.set()
    assert alerting.wait(30) and len(one.mails) == 3


def test_mail_is_tried_again(server):
    one = server(answers=["451 later", "421 later", "250 taken", "550 never"])
    alerting = PerformanceAlerting(config(one, starttls=False, username=""), cooldown=0,
                                   retry=0.001)  # fmt: skip
    alerting.send_alert(ALERT)
    assert alerting.wait(30) and len(one.mails) == 1 and alerting.mailer.failed == 0
    alerting.send_alert(ALERT)
    assert alerting.wait(30) and len(one.mails) == 1 and alerting.mailer.failed == 1
    assert one.answers == []  # what is refused for good is not tried again


def test_no_header_is_smuggled_in(server):
    one = server()
    alerting = PerformanceAlerting(config(one, starttls=False, username=""))
    alerting.send_alert({"type": "x\nBcc: c@example.org", "message": "m", "severity": "info"})
    assert alerting.wait(30)
    assert one.mails[0]["Bcc"] is None
    assert not any("c@example.org" in line for line in one.lines if line.startswith("RCPT"))


@pytest.mark.parametrize("wrong", [{"from": "a"}, {"from": "a", "to": "b", "smtp_server": "c",
                                                   "smtp_port": 25, "user": "d"}])  # fmt: skip
def test_wrong_mail_configuration(wrong):
    with pytest.raises(ValueError, match="email_config"):
        PerformanceAlerting(wrong)


# ---- in real time ------------------------------------------------------------------------------


class Told(RealTimeMonitor):
    """Its metrics are told by the test."""

    def _get_current_metrics(self):
        return self.told.pop(0)

    def _log_metrics(self, metrics):
        pass


def looks(*losses, **options):
    monitor = Told(**options)
    monitor.told = [{"loss": loss, "training_speed": 10.0} for loss in losses]
    return monitor, [bool(monitor.look()) for _ in losses]


def test_baseline_is_a_median_after_the_warm_up():
    """The first losses are of the warm-up: falling from 100 they would hide everything, rising
    from 0.01 they would be an alert at each look."""
    monitor, found = looks(100, 50, 9, 2.0, 2.1, 1.9, 2.05, 2.3, 2.0)
    assert found == [False] * 7 + [True, False]
    assert monitor.baseline_metrics["loss"] == statistics.median([2.0, 2.1, 1.9, 2.05, 2.3])
    _, found = looks(0.01, 0.02, 0.05, 2.0, 2.1, 1.9, 2.05)
    assert found == [False] * 7
    _, found = looks(2, 2, 2, 8, warmup=0, window=3)
    assert found == [False, False, False, True]


def test_speed_is_evaluated():
    monitor = Told(warmup=0)
    monitor.told = [{"training_speed": s} for s in (10.0, 11.0, 10.0, 4.9)]
    assert [len(monitor.look()) for _ in range(4)] == [0, 0, 0, 1]


def test_steps_a_second_of_a_training_monitor(recording, monkeypatch):
    from lapse.compat.nemo import _alerting

    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, time=lambda: 0.0)
    monkeypatch.setattr(_alerting, "time", clock)
    training = nemo.TrainingMonitor()
    monitor = RealTimeMonitor(training=training)
    assert monitor._get_training_speed() is None and monitor._get_current_loss() is None
    for step in range(20):
        training.record_metrics(step, 0.5, 0.1, 8)
    clock.now = 4.0
    assert monitor._get_training_speed() == 5.0 and monitor._get_current_loss() == 0.5
    told = RealTimeMonitor()
    told.update(loss=3.0, training_speed=7)
    assert (told._get_current_loss(), told._get_training_speed()) == (3.0, 7.0)


def test_errors_do_not_end_it(capsys, wait_for):
    """Nor does stopping wait for the interval."""
    seen = []

    class Alerting:
        def check_alerts(self, current, base):
            seen.append(current)
            if len(seen) < 3:
                raise RuntimeError("no metrics")
            return []

    monitor = Told(Alerting(), interval=0.01)
    monitor.told = [{"loss": 1.0}] * 10000
    monitor.start_monitoring()
    monitor.start_monitoring()
    assert wait_for(lambda: len(seen) >= 3) and monitor.is_monitoring
    monitor.stop_monitoring()
    assert not monitor.is_monitoring
    assert capsys.readouterr().out.count("Monitoring error: no metrics\n") == 2
    thread_of = Told(Alerting())
    assert thread_of.interval == 30
    thread_of.told = [{}] * 10
    thread_of.start_monitoring(interval=3600)
    thread = thread_of.monitoring_thread
    assert thread.daemon
    thread_of.stop_monitoring()
    assert not thread.is_alive()
    with pytest.raises(ValueError):
        RealTimeMonitor(interval=0)


def test_resources_are_looked_at(monkeypatch):
    from lapse.compat.nemo import _metrics

    resources = {"cpu_percent": 99.0, "gpu_metrics": {"gpu_0": {"memory_reserved": 1.0}},
                 "gpu_devices": {"gpu_0": {"memory_used": 95.0, "memory_total": 100.0},
                                 "gpu_1": {"memory_used": None, "memory_total": 9.0}}}  # fmt: skip
    monkeypatch.setattr(_metrics, "monitor_resources", lambda: resources)
    monitor = RealTimeMonitor()
    monkeypatch.setattr(monitor, "_log_metrics", lambda metrics: None)
    assert [one["message"] for one in monitor.look()] == ["GPU 0 memory usage is 95.0%",
                                                          "CPU usage is 99.0%"]  # fmt: skip
    assert monitor.current_metrics["timestamp"] > 1e9


# ---- analysis ----------------------------------------------------------------------------------


def history(losses, start=1.7e9, step=30.0):
    return [{"timestamp": start + i * step, "loss": loss, "cpu_percent": 10.0 * i,
             "gpu_memory": 100.0 - i} for i, loss in enumerate(losses)]  # fmt: skip


@need("scipy")
@pytest.mark.parametrize("n, slope, noise", [(3, 0.01, 1.0), (5, -0.001, 0.1), (20, -0.01, 2.0),
                                             (200, 0.0, 1.0), (200, -0.0002, 1.0),
                                             (1000, -0.1, 1.0)])  # fmt: skip
def test_trend_equals_scipys(n, slope, noise):
    from scipy import stats

    chance = random.Random(n)
    entries = history([5 + slope * 30 * i + chance.gauss(0, noise) for i in range(n)])
    theirs = stats.linregress([e["timestamp"] - 1.7e9 for e in entries],
                              [e["loss"] for e in entries])  # fmt: skip
    found = PerformanceAnalyzer(entries).analyze_loss_trend()
    assert found["slope"] == pytest.approx(theirs.slope, rel=1e-6)
    assert found["r_squared"] == pytest.approx(theirs.rvalue**2, rel=1e-6, abs=1e-12)
    assert found["p_value"] == pytest.approx(theirs.pvalue, rel=1e-5, abs=1e-300)
    assert found["trend"] == ("decreasing" if theirs.slope < 0 else "increasing")
    assert (found["significance"] == "significant") == (theirs.pvalue < 0.05)
    assert found["significance"] in ("significant", "not_significant")


def test_trends_of_little():
    assert PerformanceAnalyzer([]).analyze_loss_trend() == {}
    assert PerformanceAnalyzer(history([1.0])).analyze_loss_trend() == {}
    assert PerformanceAnalyzer(history([1.0, 2.0], step=0)).analyze_loss_trend() == {}
    two = PerformanceAnalyzer(history([2.0, 1.0])).analyze_loss_trend()
    assert (two["slope"], two["r_squared"]) == (pytest.approx(-1 / 30), 1)
    assert two["significance"] == "not_significant"  # any two points lie on a line
    flat = PerformanceAnalyzer(history([1.0] * 5)).analyze_loss_trend()
    assert (flat["slope"], flat["r_squared"], flat["p_value"]) == (0, 0, 1)
    exact = PerformanceAnalyzer(history([1.0, 2.0, 3.0, 4.0])).analyze_loss_trend()
    assert exact["p_value"] == pytest.approx(0, abs=1e-12)
    holes = history([1.0, float("nan"), 3.0])
    assert PerformanceAnalyzer(holes).analyze_loss_trend()["slope"] == pytest.approx(2 / 60)


def test_resource_statistics_equal_numpys():
    numpy = pytest.importorskip("numpy")
    entries = history([1.0] * 7)
    found = PerformanceAnalyzer(entries).analyze_resource_usage()
    for stats, name in (("cpu_stats", "cpu_percent"), ("gpu_stats", "gpu_memory")):
        values = [entry[name] for entry in entries]
        assert found[stats] == pytest.approx({"mean": numpy.mean(values), "std": numpy.std(values),
                                              "max": max(values), "min": min(values)})  # fmt: skip
    assert PerformanceAnalyzer([]).analyze_resource_usage() == {}
    of_gpus = [{"gpu_memory": {"gpu_0": {"memory_allocated": 3.0}, "gpu_1": {"memory_used": 4.0}}}]
    assert PerformanceAnalyzer(of_gpus).analyze_resource_usage()["gpu_stats"]["max"] == 7


def test_anomalies_are_beyond_two_deviations():
    numpy = pytest.importorskip("numpy")
    losses = [1.0, 1.1, 0.9, 1.0, 9.0, 1.05, 0.95, 1.0]
    z = (numpy.array(losses) - numpy.mean(losses)) / numpy.std(losses)
    entries = history(losses)
    assert PerformanceAnalyzer(entries).detect_anomalies() == [
        {"index": 4, "timestamp": entries[4]["timestamp"], "loss": 9.0,
         "z_score": pytest.approx(z[4])}]  # fmt: skip
    assert PerformanceAnalyzer([]).detect_anomalies() == []
    assert PerformanceAnalyzer(history([2.0] * 5)).detect_anomalies() == []
    (bad,) = PerformanceAnalyzer(history([1.0, float("nan"), 1.1])).detect_anomalies()
    assert bad["index"] == 1 and bad["z_score"] is None
