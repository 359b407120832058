// SPDX-License-Identifier: Apache-2.0

// Stands in for node-driver-registrar and livenessprobe, which cannot be had as Go modules: same arguments, same sockets.
// With --kubelet-registration-path it registers the driver with kubelet, otherwise it serves GET /healthz by Probe.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type registrar struct {
	registration.UnsafeRegistrationServer
	info *registration.PluginInfo
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return r.info, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("kubelet says: registered %v %s", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func main() {
	address := flag.String("csi-address", "/csi/csi.sock", "")
	path := flag.String("kubelet-registration-path", "", "")
	port := flag.String("health-port", "9808", "")
	timeout := flag.Duration("probe-timeout", 3*time.Second, "")
	flag.String("v", "", "")
	flag.Parse()
	connection, err := grpc.NewClient("unix://"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	identity := csi.NewIdentityClient(connection)
	if *path == "" {
		http.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
			call, cancel := context.WithTimeout(r.Context(), *timeout)
			defer cancel()
			if ready, err := identity.Probe(call, &csi.ProbeRequest{}); err != nil || ready.Ready != nil && !ready.Ready.Value {
				http.Error(w, "not ready", http.StatusInternalServerError)
			}
		})
		log.Fatal(http.ListenAndServe(":"+*port, nil))
	}
	driver, err := identity.GetPluginInfo(context.Background(), &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	socket := "/registration/" + driver.Name + "-reg.sock"
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	// As node-driver-registrar does: kubelet forgets the driver when the socket goes.
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		_ = os.Remove(socket)
		os.Exit(0)
	}()
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrar{info: &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driver.Name, Endpoint: *path, SupportedVersions: []string{"1.0.0"}}})
	log.Fatal(server.Serve(listener))
}
