job "snap-csi" {
  datacenters = ["*"]
  type        = "service"

  group "controller" {
    count = 2

    task "controller" {
      driver = "docker"

      config {
        image = "localhost/snap-csi:1.0.0"
        args = [
          "--mode=controller",
          "--namespace=dpf-operator-system",
          "--kubeconfig=${NOMAD_SECRETS_DIR}/kubeconfig",
          "--v=2",
        ]
      }

      template {
        destination = "secrets/kubeconfig"
        change_mode = "restart"
        data        = "{{ with nomadVar \"nomad/jobs/snap-csi\" }}{{ .kubeconfig }}{{ end }}"
      }

      csi_plugin {
        id        = "snap-csi"
        type      = "controller"
        mount_dir = "/csi"
      }

      resources {
        cpu    = 100
        memory = 64
      }

      kill_timeout = "30s"
    }
  }
}
