// SPDX-License-Identifier: Apache-2.0

// decode: reads a stream of YAML objects of Kubernetes from stdin, refuses each field that its kind does not have, each kind
// that is unknown and each key that is written twice, and prints the objects as one JSON list, in the form that the API's
// own types give them: two texts that mean the same come out the same. decode --any: one YAML text of any form as JSON.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	strict "k8s.io/apimachinery/pkg/runtime/serializer/json"
	stream "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// strategy is how a SecurityContextConstraints says which users, groups or contexts it allows.
type strategy struct {
	Type string `json:"type"`
}

// constraints are OpenShift's SecurityContextConstraints, as far as its documents have fields for what we write.
type constraints struct {
	meta.TypeMeta            `json:",inline"`
	meta.ObjectMeta          `json:"metadata,omitempty"`
	Priority                 *int32            `json:"priority"`
	AllowPrivilegedContainer bool              `json:"allowPrivilegedContainer"`
	DefaultAddCapabilities   []core.Capability `json:"defaultAddCapabilities"`
	RequiredDropCapabilities []core.Capability `json:"requiredDropCapabilities"`
	AllowedCapabilities      []core.Capability `json:"allowedCapabilities"`
	AllowHostDirVolumePlugin bool              `json:"allowHostDirVolumePlugin"`
	Volumes                  []string          `json:"volumes"`
	AllowHostNetwork         bool              `json:"allowHostNetwork"`
	AllowHostPorts           bool              `json:"allowHostPorts"`
	AllowHostPID             bool              `json:"allowHostPID"`
	AllowHostIPC             bool              `json:"allowHostIPC"`
	AllowPrivilegeEscalation *bool             `json:"allowPrivilegeEscalation,omitempty"`
	SELinuxContext           strategy          `json:"seLinuxContext,omitempty"`
	RunAsUser                strategy          `json:"runAsUser,omitempty"`
	SupplementalGroups       strategy          `json:"supplementalGroups,omitempty"`
	FSGroup                  strategy          `json:"fsGroup,omitempty"`
	ReadOnlyRootFilesystem   bool              `json:"readOnlyRootFilesystem"`
	Users                    []string          `json:"users"`
	Groups                   []string          `json:"groups"`
}

func (in *constraints) DeepCopyObject() runtime.Object {
	out := *in
	return &out
}

func kinds() *runtime.Scheme {
	all := runtime.NewScheme()
	must(scheme.AddToScheme(all))
	must(monitoring.AddToScheme(all))
	openshift := schema.GroupVersion{Group: "security.openshift.io", Version: "v1"}
	all.AddKnownTypeWithName(openshift.WithKind("SecurityContextConstraints"), &constraints{})
	return all
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--any" {
		text, err := io.ReadAll(os.Stdin)
		must(err)
		text, err = yaml.YAMLToJSONStrict(text)
		must(err)
		fmt.Println(string(text))
		return
	}
	all := kinds()
	decoder := strict.NewSerializerWithOptions(strict.DefaultMetaFactory, all, all, strict.SerializerOptions{Yaml: true, Strict: true})
	documents := stream.NewYAMLReader(bufio.NewReader(os.Stdin))
	objects := []runtime.Object{}
	bad := false
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		var some any
		if yaml.Unmarshal(text, &some) == nil && some == nil {
			continue // comments only
		}
		object, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			fmt.Fprintf(os.Stderr, "decode: %v: %v\n", kind, err)
			bad = true
			continue
		}
		objects = append(objects, object)
	}
	if bad {
		os.Exit(1)
	}
	must(json.NewEncoder(os.Stdout).Encode(objects))
}
