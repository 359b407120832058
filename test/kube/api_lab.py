"""etcd, kube-apiserver, snap-sim as DPF, the driver as controller, and a relay in front of the API server that can hold
a request. For api.py and bench.py, in namespaces of its own: processes started here end with the namespaces. Standard
library only."""
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import expect
import sim_switch
from expect import Failed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
OUT = os.path.join(BUILD, os.environ.get("FLAVOUR", "release"))
BIN = os.environ.get("KUBE_BIN", f"{BUILD}/kube/bin")
DIR = sys.argv[1]
DPF = "dpf-operator-system"
ACCOUNT = "snap-csi-controller"
NODE = "n1"
PORT, RELAY_PORT = 6443, 7443
STORAGE = f"/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/{DPF}"
VOLUMES, ATTACHMENTS = f"{STORAGE}/dpuvolumes", f"{STORAGE}/dpuvolumeattachments"
PATIENCE = 60
# Only the driver's accounts: each request with its user and answer.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
         "rules": [{"level": "Metadata", "users": [f"system:serviceaccount:{DPF}:{name}" for name in (ACCOUNT, "snap-csi-host-watch")]}, {"level": "None"}]}


def until(what, condition, seconds=PATIENCE):
    return expect.until(what, condition, seconds, pause=0.05)


def sh(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=DIR)
    if done.returncode:
        raise Failed(f"{' '.join(words[:3])}: {done.stdout}{done.stderr}")
    return done.stdout


# ---------------------------------------------------------------- certificates
def make_ca(name):
    sh("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={name}",
       "-days", "2", "-out", f"{name}.crt")


def certify(name, subject, ca, names="DNS:localhost,IP:127.0.0.1"):
    with open(f"{DIR}/{name}.ext", "w", encoding="ascii") as file:
        file.write(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
    sh("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key.new", "-subj", subject, "-out", f"{name}.csr")
    sh("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial",
       "-days", "2", "-out", f"{name}.crt.new", "-extfile", f"{name}.ext")
    for end in ("key", "crt"):
        os.replace(f"{DIR}/{name}.{end}.new", f"{DIR}/{name}.{end}")


def make_account_key(name):
    sh("openssl", "genrsa", "-out", f"{name}.key", "2048")
    sh("openssl", "rsa", "-in", f"{name}.key", "-pubout", "-out", f"{name}.pub")


def replace(path, text):
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def kubeconfig(name, port, user):
    replace(f"{DIR}/{name}", json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": f"{DIR}/ca.crt"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": user}]}))
    return f"{DIR}/{name}"


# ---------------------------------------------------------------- processes
class Process:
    cpus = None  # its processors, where they are not those of this program

    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment, self.process = name, command, environment, None
        self.log_path = f"{DIR}/{name}.log"

    def start(self):
        with open(self.log_path, "ab") as log:
            command = ["taskset", "--cpu-list", self.cpus, *self.command] if self.cpus else self.command
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=DIR,
                                            env={**os.environ, **(self.environment or {})})
        return self

    def kill(self, how=signal.SIGKILL):
        if self.process:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)

    def alive(self):
        return self.process.poll() is None

    def log(self, since=0):
        return text_of(self.log_path)[since:] if os.path.exists(self.log_path) else ""


class Server(Process):
    """One of the API server's side."""


class ApiServer(Server):
    def __init__(self):
        super().__init__("apiserver", [])
        self.account_key = "sa"
        self.more = []  # arguments

    def start(self):
        key = f"{DIR}/{self.account_key}"
        self.command = [
            f"{BIN}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=127.0.0.1", f"--secure-port={PORT}",
            "--advertise-address=198.51.100.1", "--endpoint-reconciler-type=none", "--authorization-mode=RBAC",
            f"--tls-cert-file={DIR}/server.crt", f"--tls-private-key-file={DIR}/server.key", f"--client-ca-file={DIR}/clients.crt",
            f"--service-account-key-file={key}.pub", f"--service-account-signing-key-file={key}.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
            "--etcd-compaction-interval=0", f"--audit-policy-file={DIR}/audit.json", f"--audit-log-path={DIR}/audit.log", *self.more]
        return super().start()

    def ready(self):
        def look():
            if not self.alive():
                raise Failed(f"kube-apiserver has ended: {self.log()[-800:]}")
            try:
                return raw("GET", "/readyz")[0] == 200
            except (OSError, http.client.HTTPException):
                return False
        until("the API server is ready", look)

    def restart(self):
        self.kill()
        self.start()
        self.ready()


class Driver(Process):
    """A driver in controller mode with a socket and a log of its own."""

    def __init__(self, name, configuration=None, environment=None, more=()):
        self.socket = f"{DIR}/{name}.sock"
        super().__init__(name, [f"{OUT}/snap-csi-plugin", "--mode=controller", f"--bind-address=unix://{self.socket}",
                                f"--namespace={DPF}", "--v=2", *([f"--kubeconfig={configuration}"] if configuration else []), *more],
                         environment)
        self.start()
        until("the driver's socket", lambda: os.path.exists(self.socket) or not self.alive())

    def call(self, method, request, seconds=PATIENCE):
        """Returns (code, the reply or the error's text)."""
        done = subprocess.run([f"{OUT}/csi-call", f"--endpoint=unix://{self.socket}", f"--timeout={seconds}", method, json.dumps(request)],
                              capture_output=True, text=True, timeout=seconds + PATIENCE, check=False)
        if done.returncode == 0:
            return "OK", json.loads(done.stdout)
        code, _, words = done.stderr.strip().partition(": ")
        return code, words

    def later(self, method, request, seconds=PATIENCE):
        """The same in a thread; returns a function that waits for the answer."""
        answer = []
        thread = threading.Thread(target=lambda: answer.append(self.call(method, request, seconds)), daemon=True)
        thread.start()

        def take():
            thread.join(seconds + PATIENCE)
            return answer[0]
        return take


# ---------------------------------------------------------------- the API
def context():
    tls = ssl.create_default_context(cafile=f"{DIR}/ca.crt")
    tls.load_cert_chain(f"{DIR}/admin.crt", f"{DIR}/admin.key")
    return tls


def raw(method, path, body=None, content="application/json", token=None):
    """Makes one request; returns (status, object or text)."""
    tls = ssl.create_default_context(cafile=f"{DIR}/ca.crt") if token else context()
    connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=tls, timeout=30)
    try:
        headers = {"Content-Type": content, **({"Authorization": f"Bearer {token}"} if token else {})}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith("{") else text
    finally:
        connection.close()


def ask(method, path, body=None, content="application/json", expect=(200, 201)):
    """The object; retries while the API server is unreachable or busy."""
    def once():
        try:
            status, answer = raw(method, path, body, content)
            return None if status in (429, 503) else (status, answer)
        except (OSError, http.client.HTTPException):
            return None
    status, answer = until(f"{method} {path} is answered", once)
    if status not in expect:
        raise Failed(f"{method} {path}: {status} {answer}")
    return answer


def slow_request(method, path, bearer):
    """Sends a request whose body never ends. The server handles it until the returned socket is closed."""
    tls = ssl.create_default_context(cafile=f"{DIR}/ca.crt").wrap_socket(
        socket.create_connection(("127.0.0.1", PORT)), server_hostname="localhost")
    tls.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\n"
                "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".encode())
    return tls


def is_answered(request):
    """Whether a slow_request() has an answer, or its connection is closed."""
    request.setblocking(False)
    try:
        request.recv(1)
    except ssl.SSLWantReadError:
        return False
    except OSError:
        pass
    return True


def exists(path):
    return raw("GET", path)[0] == 200


def remove(path):
    """Deletes the object, and waits until it is gone."""
    ask("DELETE", path, expect=(200, 202, 404))
    until(f"{path} is gone", lambda: not exists(path))


def kubectl(*words, text=None):
    return sh(f"{BIN}/kubectl", f"--kubeconfig={DIR}/admin.kubeconfig", *words, text=text)


def token(bound_to=None):
    """A token of the driver's account; bound_to: a Secret with which it expires."""
    spec = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 7200}
    if bound_to:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": bound_to}
    answer = ask("POST", f"/api/v1/namespaces/{DPF}/serviceaccounts/{ACCOUNT}/token",
                 {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    return answer["status"]["token"]


def gateway(path, body):
    """etcd's answer, by its HTTP gateway."""
    connection = http.client.HTTPConnection("127.0.0.1", 2379, timeout=30)
    connection.request("POST", path, json.dumps(body))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def etcd_status():
    """(revision, bytes in use): each write of an object is a revision."""
    status = gateway("/v3/maintenance/status", {})
    return int(status["header"]["revision"]), int(status["dbSizeInUse"])


def compact():
    """Makes etcd forget every revision but the newest."""
    gateway("/v3/kv/compaction", {"revision": etcd_status()[0], "physical": True})


# ---------------------------------------------------------------- the relay
class Gate:
    """A request that is held before it reaches the API server."""

    def __init__(self, method, pattern):
        self.method, self.pattern = method, re.compile(pattern)
        self.arrived, self.opened = threading.Event(), threading.Event()
        self.body = None

    def wait(self):
        if not self.arrived.wait(PATIENCE):
            raise Failed(f"no {self.method} {self.pattern.pattern} came")
        return self


class Relay:
    """A TLS proxy in front of the API server: records requests and answers, holds requests, cuts watches."""

    def __init__(self):
        self.seen = []  # {"method", "path", "at", "status", "retry_after", "events"}
        self.gates, self.watches, self.lock = [], [], threading.Lock()
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_any(self):
                try:
                    relay.forward(self)
                except (OSError, http.client.HTTPException, ValueError):
                    self.close_connection = True
            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass

        server = Server(("127.0.0.1", RELAY_PORT), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(f"{DIR}/relay.crt", f"{DIR}/relay.key")
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def hold(self, method, pattern):
        """The next matching request waits for .opened.set()."""
        gate = Gate(method, pattern)
        with self.lock:
            self.gates.append(gate)
        return gate

    def pass_gate(self, method, path, body):
        with self.lock:
            gate = next((g for g in self.gates if g.method == method and g.pattern.search(path)), None)
            if gate:
                self.gates.remove(gate)
        if gate:
            gate.body = body
            gate.arrived.set()
            gate.opened.wait(PATIENCE)

    def forward(self, client):
        body = client.rfile.read(int(client.headers.get("Content-Length", 0)))
        note = {"method": client.command, "path": client.path, "at": time.monotonic(), "status": 0, "events": []}
        with self.lock:
            self.seen.append(note)
        self.pass_gate(client.command, client.path, body)
        tls = ssl.create_default_context(cafile=f"{DIR}/ca.crt")
        server = http.client.HTTPSConnection("127.0.0.1", PORT, context=tls)
        try:
            names = ("Authorization", "Content-Type", "Accept", "User-Agent")
            server.request(client.command, client.path, body or None,
                           {name: client.headers[name] for name in names if client.headers[name]})
            answer = server.getresponse()
            note["status"] = answer.status
            note["retry_after"] = answer.headers.get("Retry-After")
            if "watch=1" in client.path and answer.status == 200:
                self.stream(client, answer, note)
                return
            text = answer.read()
            note["answer"] = text
            client.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if answer.headers.get(name):
                    client.send_header(name, answer.headers[name])
            client.send_header("Content-Length", str(len(text)))
            client.end_headers()
            client.wfile.write(text)
        finally:
            server.close()

    def stream(self, client, answer, note):
        client.send_response(200)
        client.send_header("Content-Type", "application/json")
        client.send_header("Transfer-Encoding", "chunked")
        client.end_headers()
        with self.lock:
            self.watches.append((client, note))
        try:
            while line := answer.readline():
                event = json.loads(line)
                about = event["object"]
                note["events"].append((event["type"], about.get("metadata", {}).get("resourceVersion"), about.get("code")))
                client.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                client.wfile.flush()
            client.wfile.write(b"0\r\n\r\n")
        finally:
            with self.lock:
                self.watches.remove((client, note))

    def cut(self, plural):
        """Ends the open watches of a kind on the driver's side."""
        with self.lock:
            open_now = [w for w in self.watches if f"/{plural}?" in w[1]["path"]]
        for client, _ in open_now:
            client.connection.shutdown(2)  # both directions
        return [note for _, note in open_now]

    def requests(self, method, pattern, status=None, since=0):
        with self.lock:
            return [n for n in self.seen[since:] if n["method"] == method and re.search(pattern, n["path"]) and status in (None, n["status"])]

    def mark(self):
        with self.lock:
            return len(self.seen)


# ---------------------------------------------------------------- all of it
class Cluster:
    """etcd and API server with DPF's kinds and the driver's account; more: arguments of the API server."""

    def __init__(self, more=()):
        for words in (("link", "set", "lo", "up"), ("addr", "add", "198.51.100.1/32", "dev", "lo"),
                      ("route", "add", "default", "dev", "lo")):
            sh("ip", *words)
        make_ca("ca")
        make_ca("ca2")
        shutil.copy(f"{DIR}/ca.crt", f"{DIR}/clients.crt")  # the CA of client certificates; stays when ca is replaced
        certify("server", "/CN=kube-apiserver", "ca")
        certify("relay", "/CN=relay", "ca")
        certify("admin", "/O=system:masters/CN=admin", "ca")
        make_account_key("sa")
        replace(f"{DIR}/audit.json", json.dumps(AUDIT))
        self.etcd = Server("etcd", [f"{BIN}/etcd", f"--data-dir={DIR}/etcd", "--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=error"]).start()
        self.apiserver = ApiServer()
        self.apiserver.more += more
        self.apiserver.start()
        admin = {"client-certificate": f"{DIR}/admin.crt", "client-key": f"{DIR}/admin.key"}
        self.admin = kubeconfig("admin.kubeconfig", PORT, admin)
        self.apiserver.ready()
        kubectl("apply", "-f", f"{ROOT}/test/kube/crds")
        kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        kubectl("apply", "-f", f"{ROOT}/test/kube/world.yaml")
        only = sh("python3", f"{ROOT}/test/kube/only.py", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
                  text=sh(f"{BIN}/kubectl", "kustomize", f"{ROOT}/manifests/base"))
        kubectl("apply", "-f", "-", text=only)


class Lab(Cluster):
    def __init__(self):
        super().__init__()
        self.sim = Process("sim", [f"{OUT}/snap-sim", f"--kubeconfig={self.admin}", f"--namespace={DPF}", f"--node={NODE}", "--vfs=32",
                                   "--no-fabric", "--hotplug-slots=4", f"--port-file={DIR}/sim.port", "--v=1"])
        self.start_sim()
        self.relay = Relay()
        self.direct = Driver("driver-direct", kubeconfig("direct.kubeconfig", PORT, {"token": token()}))
        self.relayed = Driver("driver-relayed", kubeconfig("relayed.kubeconfig", RELAY_PORT, {"token": token()}))

    def start_sim(self):
        if os.path.exists(f"{DIR}/sim.port"):
            os.unlink(f"{DIR}/sim.port")
        self.sim.start()
        until("snap-sim serves", lambda: os.path.exists(f"{DIR}/sim.port"))

    def fault(self, fault):
        sim_switch.request(text_of(f"{DIR}/sim.port"), "POST" if fault else "DELETE", "/sim/faults", fault)

    def heal(self):
        self.fault(None)
