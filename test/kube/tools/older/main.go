// SPDX-License-Identifier: Apache-2.0

// older: reads a stream of YAML objects from stdin and refuses each kind and each field that a Kubernetes of go.mod's version
// does not have. Built once for each version, whose modules are in VERSION.mod: the API types of a version are its schema.
// Kinds of other makers are passed over.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	strict "k8s.io/apimachinery/pkg/runtime/serializer/json"
	stream "k8s.io/apimachinery/pkg/util/yaml"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "older:", err)
		os.Exit(1)
	}
}

func main() {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme,
		rbac.AddToScheme, scheduling.AddToScheme, storage.AddToScheme} {
		must(add(all))
	}
	decoder := strict.NewSerializerWithOptions(strict.DefaultMetaFactory, all, all, strict.SerializerOptions{Yaml: true, Strict: true})
	documents := stream.NewYAMLReader(bufio.NewReader(os.Stdin))
	read, bad := 0, false
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		_, kind, err := decoder.Decode(text, nil, nil)
		switch {
		case err == nil:
			read++
		case runtime.IsMissingKind(err):
			continue // comments only
		case kind != nil && runtime.IsNotRegisteredError(err) && !all.IsGroupRegistered(kind.Group):
			fmt.Fprintf(os.Stderr, "older: passed over: %v\n", kind)
		default:
			fmt.Fprintf(os.Stderr, "older: %v: %v\n", kind, err)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
	fmt.Println(read)
}
