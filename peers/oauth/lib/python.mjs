// The Python of this folder: its packages are pinned in requirements.txt.

import { fileURLToPath } from 'node:url';

export const PYTHON = fileURLToPath(new URL('../../../.cache/oauth-venv/bin/python', import.meta.url));
