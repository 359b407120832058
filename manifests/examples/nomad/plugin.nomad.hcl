job "snap-csi" {
  datacenters = ["*"]
  type        = "system"

  group "plugin" {
    task "plugin" {
      driver = "docker"

      config {
        image      = "localhost/snap-csi:1.0.0"
        privileged = true
        pid_mode   = "host"
        volumes = [
          "/lib/modules:/lib/modules:ro",
          "/var/lib/snap-csi:/var/lib/snap-csi",
        ]
        args = [
          "--mode=all",
          "--namespace=dpf-operator-system",
          "--node-id=${attr.unique.hostname}",
          "--kubeconfig=${NOMAD_SECRETS_DIR}/kubeconfig",
          "--kubelet-dir=/local/csi",
          "--plugin-dir=/var/lib/snap-csi",
          "--v=2",
        ]
      }

      template {
        destination = "secrets/kubeconfig"
        change_mode = "restart"
        data        = "{{ with nomadVar \"nomad/jobs/snap-csi\" }}{{ .kubeconfig }}{{ end }}"
      }

      csi_plugin {
        id             = "snap-csi"
        type           = "monolith"
        mount_dir      = "/csi"
        health_timeout = "30s"
      }

      resources {
        cpu    = 100
        memory = 128
      }

      kill_timeout = "30s"
    }
  }
}
