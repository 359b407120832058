// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func csiCall(c csi.ControllerClient, ctx context.Context, i int) error {
	var err error
	switch *op {
	case "create":
		_, err = c.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: volume(i), CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 30},
			VolumeCapabilities: []*csi.VolumeCapability{capability()}, Parameters: map[string]string{"policy": "example-policy"}})
	case "publish":
		_, err = c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: volume(i), NodeId: node(i), VolumeCapability: capability()})
	case "unpublish":
		_, err = c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: volume(i), NodeId: node(i)})
	case "delete":
		_, err = c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume(i)})
	default:
		log.Fatal("no such operation: ", *op)
	}
	return err
}

func csiCalls() {
	connection, err := grpc.NewClient("unix://"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	client := csi.NewControllerClient(connection)
	if *seconds == 0 {
		*seconds = 120
	}
	measure(func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
		defer cancel()
		return csiCall(client, ctx, i)
	})
}
