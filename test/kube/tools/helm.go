// SPDX-License-Identifier: Apache-2.0

//go:build tools

package tools

// What installs charts/snap-csi in the tests (make chart-test). Its k8s.io packages are those of this module.
import (
	_ "helm.sh/helm/v4/cmd/helm"
)
