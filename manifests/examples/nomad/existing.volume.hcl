id          = "existing"
name        = "existing"
type        = "csi"
plugin_id   = "snap-csi"
external_id = "made-by-hand"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}
