# SPDX-License-Identifier: Apache-2.0
"""What kubelet does to the driver: CSI Node calls over gRPC, with its paths and its repetitions."""
import os
import subprocess
import sys

import grpc

KUBELET = "/var/lib/kubelet"


def load_messages(out, proto_root):
    """Python messages from the repository's own csi.proto, made by protoc into `out`."""
    os.makedirs(out, exist_ok=True)
    subprocess.run(["protoc", f"-I{proto_root}", "-I/usr/include", f"--python_out={out}", "csi/csi.proto"], check=True)
    sys.path.insert(0, out)
    from csi import csi_pb2  # pylint: disable=import-outside-toplevel,import-error
    return csi_pb2


class Refused(Exception):
    """A call that ended with another status than OK."""

    def __init__(self, method, error):
        super().__init__(f"{method}: {error.code().name}: {error.details()}")
        self.method, self.code, self.text = method, error.code().name, error.details()


class Kubelet:
    def __init__(self, messages, target, **options):
        """target: of gRPC, "unix:/path" or "host:port"; options: of the channel, without their "grpc."."""
        self.pb = messages
        self.channel = grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)] +
                                             [(f"grpc.{name}", value) for name, value in options.items()])

    def close(self):
        self.channel.close()

    def call(self, service, method, timeout=120, wait_for_ready=None, **fields):
        request = getattr(self.pb, method + "Request")(**fields)
        stub = self.channel.unary_unary(f"/csi.v1.{service}/{method}",
                                        request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=getattr(self.pb, method + "Response").FromString)
        try:
            return stub(request, timeout=timeout, wait_for_ready=wait_for_ready)
        except grpc.RpcError as error:
            raise Refused(method, error) from error

    def node(self, method, timeout=120, **fields):
        return self.call("Node", method, timeout, **fields)


class Volume:
    """One volume as kubelet sees it: paths, capability, contexts."""

    def __init__(self, kubelet, name, publish_context, fs="ext4", mode=1, block=False, flags=(), volume_context=None, secrets=None):
        self.k, self.id = kubelet, name
        self.publish_context, self.volume_context = dict(publish_context), dict(volume_context or {})
        self.secrets = dict(secrets or {})
        self.block, self.fs, self.mode, self.flags = block, fs, mode, list(flags)
        where = "volumeDevices/staging" if block else "csi.snap.nvidia.com"
        self.staging = f"{KUBELET}/plugins/kubernetes.io/csi/{where}/{name}"
        if not block:
            self.staging += "/globalmount"

    def target(self, pod):
        if self.block:
            return f"{KUBELET}/plugins/kubernetes.io/csi/volumeDevices/publish/{self.id}/{pod}"
        return f"{KUBELET}/pods/{pod}/volumes/kubernetes.io~csi/{self.id}/mount"

    def capability(self):
        cap = self.k.pb.VolumeCapability(access_mode={"mode": self.mode})
        if self.block:
            cap.block.SetInParent()
        else:
            cap.mount.fs_type = self.fs
            cap.mount.mount_flags.extend(self.flags)
        return cap

    def stage(self, timeout=120):
        return self.k.node("NodeStageVolume", timeout, volume_id=self.id, staging_target_path=self.staging,
                           publish_context=self.publish_context, volume_context=self.volume_context,
                           volume_capability=self.capability(), secrets=self.secrets)

    def publish(self, pod="pod-1", readonly=False, timeout=120):
        return self.k.node("NodePublishVolume", timeout, volume_id=self.id, staging_target_path=self.staging,
                           target_path=self.target(pod), publish_context=self.publish_context,
                           volume_context=self.volume_context, volume_capability=self.capability(),
                           readonly=readonly)

    def unpublish(self, pod="pod-1", timeout=120):
        return self.k.node("NodeUnpublishVolume", timeout, volume_id=self.id, target_path=self.target(pod))

    def unstage(self, timeout=120):
        return self.k.node("NodeUnstageVolume", timeout, volume_id=self.id, staging_target_path=self.staging)

    def stats(self, pod="pod-1", timeout=120):
        return self.k.node("NodeGetVolumeStats", timeout, volume_id=self.id, volume_path=self.target(pod),
                           staging_target_path=self.staging)

    def expand(self, pod="pod-1", required=0, timeout=120):
        return self.k.node("NodeExpandVolume", timeout, volume_id=self.id, volume_path=self.target(pod),
                           staging_target_path=self.staging, volume_capability=self.capability(),
                           capacity_range={"required_bytes": required}, secrets=self.secrets)

    def health(self, timeout=120, **where):
        return self.k.node("NodeGetVolumeHealth", timeout, volume_id=self.id, **where)
