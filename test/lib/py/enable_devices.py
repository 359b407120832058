#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that sets up VFs, as the driver's gate sees it: calls EnableDevices and holds the stream until it is killed.

    enable_devices.py SOCKET NODE GENERATION [SECONDS]

Prints a line of JSON for each status, and one with the code when the stream ends. SECONDS: the call's deadline. The messages
are made here from the design document of the SR-IOV network device plugin, not from the driver's own csi/*.proto: both sides
have to mean the same names and numbers. The transport is grpcio, which is not ours either.
"""
import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
STATES = ["UNKNOWN", "INITIALIZING", "SERVING", "ERROR", "STOPPING"]


def messages():
    """EnableDevicesRequest and DevicePluginStatus."""
    file = descriptor_pb2.FileDescriptorProto(name="control.proto", package="sriovdp.control.v1", syntax="proto3")

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, start=1):
            m.field.add(name=field, number=number, type=kind, label=FIELD.LABEL_OPTIONAL)
        return m

    message("EnableDevicesRequest", ("node_state_generation", FIELD.TYPE_INT64), ("node_name", FIELD.TYPE_STRING))
    status = message("DevicePluginStatus", ("state", FIELD.TYPE_ENUM), ("resource_pool_count", FIELD.TYPE_INT32),
                     ("device_count", FIELD.TYPE_INT32), ("serving_generation", FIELD.TYPE_INT64),
                     ("error_message", FIELD.TYPE_STRING))
    status.field[0].type_name = ".sriovdp.control.v1.DevicePluginStatus.State"
    state = status.enum_type.add(name="State")
    for number, name in enumerate(STATES):
        state.value.add(name=name, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(f"sriovdp.control.v1.{name}"))
            for name in ("EnableDevicesRequest", "DevicePluginStatus")]


def say(**line):
    print(json.dumps(line), flush=True)


def hold(socket, node, generation, timeout=None):
    request, status = messages()
    channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.enable_http_proxy", 0)])
    call = channel.unary_stream("/sriovdp.control.v1.ControlService/EnableDevices",
                                request_serializer=request.SerializeToString, response_deserializer=status.FromString)
    try:
        for s in call(request(node_state_generation=generation, node_name=node), timeout=timeout, wait_for_ready=True):
            say(state=STATES[s.state], pools=s.resource_pool_count, devices=s.device_count,
                generation=s.serving_generation, error=s.error_message)
        say(end="OK", text="")
    except grpc.RpcError as error:
        say(end=error.code().name, text=error.details())


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else None)
