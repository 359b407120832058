id           = "data"
name         = "data"
type         = "csi"
plugin_id    = "snap-csi"
capacity_min = "1GiB"
capacity_max = "2GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}

parameters {
  policy          = "example-policy"
  functionType    = "vf"
  hotplugFunction = "false"
}
